"""The states of a text in a model: computed once, extended or cut, shared by later passes, never changed.

The replay of saved histories extends a prefix from depth to depth and shares it between batches. Training cuts the native
model's states of an earlier turn to the text that the next turn begins with (appendix B.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, LinearAttentionLayer

from stair.models.architecture import Architecture, describe


class PrefixLayer(DynamicLayer):
    """Keys and values before those of a pass, which are appended only if `grows` is true.

    The prefix [1, kv_heads, tokens, head_dim] serves every row of a pass. A layer that does not grow can serve several
    passes, and a backward pass that computes it again.
    """

    def __init__(self, keys: Tensor, values: Tensor, grows: bool) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys: Tensor = keys
        self.values: Tensor = values
        self.grows = grows

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Return the prefix with the new states behind it."""
        rows = key_states.shape[0]
        keys = torch.cat([self.keys.expand(rows, -1, -1, -1), key_states], dim=-2)
        values = torch.cat([self.values.expand(rows, -1, -1, -1), value_states], dim=-2)
        if self.grows:
            self.keys, self.values = keys, values
        return keys, values


@dataclass(frozen=True)
class Prefix:
    """The states that `model` holds after `ids`, of every layer.

    A full-attention layer has keys (after RoPE) and values [1, kv_heads, tokens, head_dim]. A recurrent layer has the
    inputs of its convolution and its state, None before the first token.
    """

    model: Any
    ids: tuple[int, ...]
    states: tuple[tuple[Tensor, Tensor] | None, ...]

    @classmethod
    def empty(cls, model: Any) -> Prefix:
        """Of no token."""
        architecture = describe(model.config.to_dict())
        weight = next(model.parameters())
        nothing = weight.new_empty(1, architecture.kv_heads, 0, architecture.head_dim)
        full = set(architecture.full_attention_layers)
        layers = range(architecture.layers)
        return cls(model, (), tuple((nothing, nothing) if layer in full else None for layer in layers))

    @staticmethod
    def can_be_cut(architecture: Architecture) -> bool:
        """Whether every layer is full attention; the recurrent state of a hybrid cannot be cut to fewer tokens."""
        return len(architecture.full_attention_layers) == architecture.layers

    @torch.inference_mode()
    def extended(self, ids: Sequence[int]) -> Prefix:
        """Return the prefix of `ids`, which begin with those of this one. Only the further ids are computed.

        Raises ValueError when `ids` begin otherwise.
        """
        known = len(self.ids)
        if tuple(ids[:known]) != self.ids:
            raise ValueError(f"these {len(ids)} ids do not begin with the {known} ids of the prefix to extend")
        if len(ids) == known:
            return self
        device = next(self.model.parameters()).device
        cache = self.growing_cache()
        run(self.model, torch.tensor([list(ids[known:])], device=device), cache, known)
        return self.replaced(ids, cache)

    def growing_cache(self) -> Cache:
        """Return the states in front of one row, for a pass whose own states are added to them; see `replaced`."""
        return self._cache(1, grows=True)

    def replaced(self, ids: Sequence[int], cache: Cache) -> Prefix:
        """Return the prefix of `ids` from the cache of the pass that computed them."""
        return Prefix(self.model, tuple(ids), tuple(_states(layer) for layer in cache.layers))

    def common_tokens(self, ids: Sequence[int], limit: int) -> int:
        """Return the number of leading tokens of `ids`, at most `limit`, that equal those of this prefix."""
        known = min(len(self.ids), limit)
        return next((place for place in range(known) if self.ids[place] != ids[place]), known)

    def cut(self, length: int) -> Prefix:
        """Return the prefix of the first `length` tokens. The architecture must allow it (`can_be_cut`)."""
        states = tuple(pair and (pair[0][:, :, :length], pair[1][:, :, :length]) for pair in self.states)
        return Prefix(self.model, self.ids[:length], states)

    def cache(self, rows: int) -> Cache:
        """Return the states in front of `rows` rows, for one pass, which leaves the prefix as it is."""
        return self._cache(rows, grows=False)

    def _cache(self, rows: int, *, grows: bool) -> Cache:
        full = set(describe(self.model.config.to_dict()).full_attention_layers)
        layers: list[Any] = []
        for number, pair in enumerate(self.states):
            if number in full:
                assert pair is not None
                layers.append(PrefixLayer(*pair, grows))
            else:
                layers.append(_recurrent(pair, rows))
        return Cache(layers=layers)


def run(model: Any, ids: Tensor, cache: Cache, start: int) -> Tensor:
    """Compute `ids` [rows, columns] behind a cache of `start` tokens; return the decoder's output, before the vocabulary."""
    rows, columns = ids.shape
    positions = torch.arange(start, start + columns, device=ids.device).expand(rows, -1)
    # Rows without padding need no mask, and the host would wait until the device had searched one. Transformers looks for
    # packed sequences only without a cache.
    output: Tensor = model.base_model(
        input_ids=ids, attention_mask=None, position_ids=positions, past_key_values=cache, use_cache=True
    ).last_hidden_state
    return output


def _recurrent(pair: tuple[Tensor, Tensor] | None, rows: int) -> LinearAttentionLayer:
    """A recurrent layer's states for one pass, which writes its own over them: so they are copies."""
    layer = LinearAttentionLayer()
    if pair is not None:
        convolution, recurrence = pair
        layer.update_conv_state(convolution.expand(rows, -1, -1))
        layer.update_recurrent_state(recurrence.expand(rows, -1, -1, -1))
    return layer


def _states(layer: Any) -> tuple[Tensor, Tensor]:
    if isinstance(layer, PrefixLayer):
        return layer.keys, layer.values
    return layer.conv_states[0], layer.recurrent_states[0]
