"""The decoding cache: every row starts at slot 0 and grows at its own pace.

A row's tokens lie at slots 0, 1, 2, ... whatever its neighbours hold, and later slots are masked. So the arithmetic of a
row is that of a row alone. The part of the cache that attention sees grows in whole blocks.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, LinearAttentionLayer

from stair.engines.transformers.prefill import Prefilled
from stair.models.flash_kernels import PACKAGES


class _Frontier:
    """Where every row writes next, and how much of the cache is read; shared by the layers."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows = torch.arange(rows, device=device)
        self.positions = torch.zeros(rows, dtype=torch.long, device=device)
        self.visible = 0


class _AttentionSlots(CacheLayerMixin):
    """Keys and values of one attention layer, `[rows, kv_heads, capacity, head_dim]`."""

    def __init__(self, frontier: _Frontier) -> None:
        super().__init__()
        self._frontier = frontier

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        raise AssertionError("slots are reserved before they are used")

    def reserve(self, like: torch.Tensor, values_like: torch.Tensor, capacity: int) -> None:
        """Makes room for `capacity` positions; what is there stays."""
        where = self._frontier.rows

        def grown(old: torch.Tensor | None, example: torch.Tensor) -> torch.Tensor:
            shape = (where.numel(), example.shape[1], capacity, example.shape[3])
            new = torch.zeros(shape, dtype=example.dtype, device=where.device)
            if old is not None:
                new[:, :, : old.shape[2]] = old
            return new

        self.keys, self.values = grown(self.keys, like), grown(self.values, values_like)
        self.is_initialized = True

    def place(self, row: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Puts a prefilled row `[kv_heads, tokens, head_dim]` into its slots."""
        assert self.keys is not None and self.values is not None
        for slots, states in ((self.keys, keys), (self.values, values)):
            slots[row, :, : states.shape[1]] = states
            # A mask does not hide an earlier response's NaN.
            slots[row, :, states.shape[1] :] = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes one new token a row at its own position; returns what attention may see."""
        assert self.keys is not None and self.values is not None and key_states.shape[2] == 1
        where = self._frontier
        self.keys[where.rows, :, where.positions] = key_states[:, :, 0]
        self.values[where.rows, :, where.positions] = value_states[:, :, 0]
        return self.keys[:, :, : where.visible], self.values[:, :, : where.visible]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._frontier.visible, 0

    def get_seq_length(self) -> int:
        return self._frontier.visible

    def get_max_length(self) -> int:
        return -1


class SlotCache(Cache):
    """The decoding cache of a batch of fixed width, for attention and Gated DeltaNet layers.

    Args:
        config: the model's text configuration.
        rows: width of the batch.
        block: the cache grows and is read in whole blocks of this many positions.
        device: the model's device.
    """

    def __init__(self, config: Any, rows: int, block: int, device: torch.device) -> None:
        self.frontier = _Frontier(rows, device)
        self._block, self._capacity = block, 0
        kinds = list(getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers)
        unknown = set(kinds) - {"full_attention", "linear_attention"}
        if unknown:
            raise ValueError(
                f"layers of type {', '.join(sorted(unknown))} are not supported by the Transformers engine"
            )
        self._config = config
        super().__init__(
            layers=[_AttentionSlots(self.frontier) if k == "full_attention" else LinearAttentionLayer() for k in kinds]
        )

    def place(self, row: int, prefilled: Prefilled, length: int) -> None:
        """Starts a row with a prefilled prompt of `length` tokens."""
        self._reserve(prefilled.cache, length + 1)
        sources: list[Any] = prefilled.cache.layers
        here = (prefilled.row, slice(None), slice(prefilled.padding, None))
        for slots, source in zip(self.layers, sources, strict=True):
            if isinstance(slots, _AttentionSlots):
                slots.place(row, source.keys[here], source.values[here])
            elif isinstance(slots, LinearAttentionLayer):
                _place_linear(slots, row, source, prefilled.row, self.frontier.rows.numel())
        self.frontier.positions[row] = length

    def release(self, row: int) -> None:
        """A row's response has ended: what is computed for the free row goes to its first slot."""
        self.frontier.positions[row] = 0

    def prepare(self, longest: int) -> torch.Tensor:
        """Before a decoding step: room for every row's next token, and the mask over the visible positions.

        The mask is `[rows, 1, 1, visible]`, additive; for FlashAttention `[rows, 1, 1, 1]`, how many positions a row sees.
        """
        if longest > self._capacity:
            self._reserve(None, longest)
        self.frontier.visible = min(self._capacity, -(-longest // self._block) * self._block)
        if self._config._attn_implementation in PACKAGES:
            # Its kernel reads a row's own positions alone. So the shapes stay, and a recorded step serves until the cache grows.
            self.frontier.visible = self._capacity
            return (self.frontier.positions + 1).to(torch.int32)[:, None, None, None]
        places = torch.arange(self.frontier.visible, device=self.frontier.rows.device)
        hidden = places > self.frontier.positions[:, None]
        first = next(layer for layer in self.layers if isinstance(layer, _AttentionSlots))
        assert first.keys is not None
        mask = torch.zeros(hidden.shape, dtype=first.keys.dtype, device=hidden.device)
        return mask.masked_fill(hidden, -torch.inf)[:, None, None, :]

    @property
    def capacity(self) -> int:
        """Positions that a row has room for. While it stays, so do the tensors of the attention layers."""
        return self._capacity

    def advance(self, rows: torch.Tensor) -> None:
        """After a decoding step: the given rows (bool `[rows]`) have one token more."""
        self.frontier.positions += rows

    def _reserve(self, prefilled: DynamicCache | None, length: int) -> None:
        if length <= self._capacity:
            return
        # Half as much again, so that growing stays rare; whole blocks.
        wanted = max(length, self._capacity * 3 // 2)
        capacity = -(-wanted // self._block) * self._block
        for number, slots in enumerate(self.layers):
            if isinstance(slots, _AttentionSlots):
                like: Any = prefilled.layers[number] if prefilled is not None else slots
                assert like.keys is not None and like.values is not None
                slots.reserve(like.keys, like.values, capacity)
        self._capacity = capacity


def _place_linear(
    slots: LinearAttentionLayer, row: int, source: LinearAttentionLayer, source_row: int, rows: int
) -> None:
    """Copies the convolution and recurrent states of one row of a prefilled layer."""
    for name in ("conv_states", "recurrent_states"):
        ours, theirs = getattr(slots, name), getattr(source, name)
        for index, states in theirs.items():
            if states is None:
                continue
            if ours[index] is None:
                ours[index] = states.new_zeros(rows, *states.shape[1:])
            ours[index][row] = states[source_row]
    target: Any = slots
    for name in (
        "dtype",
        "device",
        "is_conv_states_initialized",
        "is_recurrent_states_initialized",
        "has_previous_state",
        "conv_kernel_size",
    ):
        setattr(target, name, getattr(source, name))
