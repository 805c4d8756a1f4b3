"""Masses and reads of a batch of current problems behind one shared prefix, in tiles; no attention matrix is stored.

B problems, H query heads, K key/value heads, T columns of the padded current turns, P positions of the prefix, D channels
of a head. The arithmetic is FP32, FP64 for FP64 input.

Every query of a current turn sees the whole prefix. So its positions may come in any order: sorted by category, each
category is one slice. All problems meet the prefix's keys in the same product.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stair.stages.replay.measurement.batch_memory import CPU_TILE, GPU_TILE
from stair.stages.replay.measurement.categories import CATEGORIES

_LANES = 16  # rows of a tile whose length is no multiple of it cost a product up to half its speed

_CURRENT = CATEGORIES.index("current")


@dataclass(frozen=True)
class Sources:
    """A prefix's positions by category: `order` sorts them, `slices` are the categories in that order, `ends` their ends."""

    order: Tensor
    slices: tuple[slice, ...]
    ends: Tensor

    @classmethod
    def of(cls, categories: Sequence[int], device: torch.device) -> Sources:
        """From the index in CATEGORIES of every position of a prefix."""
        assert all(0 <= category < _CURRENT for category in categories), "a prefix has no current turn"
        of_positions = torch.tensor(categories, dtype=torch.long, device=device)
        ends = torch.bincount(of_positions, minlength=_CURRENT).cumsum(0)
        bounds = [0, *ends.tolist()]
        return cls(of_positions.argsort(stable=True), tuple(map(slice, bounds, bounds[1:])), ends)


@dataclass(frozen=True)
class Layer:
    """What one attention layer computed for a batch: queries and keys after RoPE, and the gate's logits (Qwen3.5)."""

    q_BHTD: Tensor
    prefix_k_KPD: Tensor
    prefix_v_KPD: Tensor
    k_BKTD: Tensor
    v_BKTD: Tensor
    gate_BTHD: Tensor | None = None


def attend(
    layer: Layer,
    sources: Sources,
    weights_BT: Tensor,
    output_projection: Tensor | None = None,
    *,
    tile_bytes: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return the masses [B, 4], and the reads [B, 4, hidden] where an output projection is given.

    `weights_BT` are the weights of the mean over a problem's body tokens: 1 / |T_x| in the body, zero elsewhere.
    On a GPU with Triton, masses alone come from `mass_kernel`.
    """
    if output_projection is None and _has_kernel(layer):
        from stair.stages.replay.measurement import mass_kernel

        prefix = layer.prefix_k_KPD.index_select(1, sources.order)
        return mass_kernel.masses(layer.q_BHTD, prefix, layer.k_BKTD, sources.ends, weights_BT), None
    problems, heads, _, head_dim = layer.q_BHTD.shape
    tiles = _Tiles(layer, sources, weights_BT, tile_bytes or (GPU_TILE if layer.q_BHTD.is_cuda else CPU_TILE))
    average = torch.zeros(problems, heads, tiles.width, dtype=tiles.dtype, device=layer.q_BHTD.device)
    read = average.new_zeros(problems, len(CATEGORIES), heads, head_dim)
    for kv_head in range(layer.prefix_k_KPD.shape[0]):
        own = tiles.heads(kv_head)
        values = () if output_projection is None else tiles.values(kv_head)
        for rows, tokens, share, alpha in tiles.of(kv_head):
            average[rows, own] += (share @ alpha)[:, :, 0]
            if layer.gate_BTHD is not None:  # A gate differs by token, so it precedes the mean.
                gate = torch.sigmoid(layer.gate_BTHD[rows, tokens, own].to(tiles.dtype)).transpose(1, 2)
                for category, met in enumerate(values):
                    behind = met if category != _CURRENT else met[rows, None]
                    part = alpha[..., tiles.slices[category]]
                    read[rows, category, own] += (share @ (gate * (part @ behind)))[:, :, 0]
        if layer.gate_BTHD is None:  # The read of the mean is the mean of the reads.
            for category, met in enumerate(values):
                read[:, category, own] = average[:, own, tiles.slices[category]] @ met
    mean = average.mean(1)
    masses = torch.stack([mean[:, span].sum(-1) for span in tiles.slices], dim=1)
    if output_projection is None:
        return masses, None
    return masses, read.flatten(2) @ output_projection.to(tiles.dtype).mT


def _has_kernel(layer: Layer) -> bool:
    if not layer.q_BHTD.is_cuda or importlib.util.find_spec("triton") is None:
        return False
    from stair.stages.replay.measurement import mass_kernel

    return mass_kernel.takes(layer.q_BHTD)


class _Tiles:
    """Tiles of the attention probabilities of a batch's bodies, by key/value head."""

    def __init__(self, layer: Layer, sources: Sources, weights_BT: Tensor, tile_bytes: int) -> None:
        self._layer, self._sources = layer, sources
        self.dtype = torch.float64 if layer.q_BHTD.dtype == torch.float64 else torch.float32
        self._weights = weights_BT.to(self.dtype)
        body = self._weights.any(0).nonzero()[:, 0]
        first, self._end = int(body[0]), int(body[-1]) + 1
        kv_heads, self._prefix = layer.prefix_k_KPD.shape[:2]
        self._groups = layer.q_BHTD.shape[1] // kv_heads
        self.slices = (*sources.slices, slice(self._prefix, self._prefix + self._end))
        """Each category's columns of a tile."""
        self.width = -(-(self._prefix + self._end) // _LANES) * _LANES
        """Columns of a tile; those behind the last slice have no weight."""
        # Column t of a turn sees the columns up to t.
        own = (self._end, self.width - self._prefix)
        self._later = torch.ones(own, dtype=torch.bool, device=layer.q_BHTD.device).triu(1)
        row_bytes = self._groups * self.width * self._weights.element_size()
        self._steps = list(_steps(len(layer.q_BHTD), (first, self._end), row_bytes, tile_bytes))
        # Allocated once: fresh tiles each time would cost more in page faults than the arithmetic in them.
        most = max((b.stop - b.start) * (t.stop - t.start) for b, t in self._steps)
        self._buffers = self._weights.new_empty(2, most * self._groups * self.width)

    def heads(self, kv_head: int) -> slice:
        """The query heads of a key/value head."""
        return slice(kv_head * self._groups, (kv_head + 1) * self._groups)

    def values(self, kv_head: int) -> tuple[Tensor, ...]:
        """By category the values [positions, D] of the prefix, then those of the current turns [B, columns, D]."""
        prefix = self._layer.prefix_v_KPD[kv_head].index_select(0, self._sources.order).to(self.dtype)
        current = self._layer.v_BKTD[:, kv_head, : self._end].to(self.dtype)
        return (*(prefix[span] for span in self._sources.slices), current)

    def of(self, kv_head: int) -> Iterator[tuple[slice, slice, Tensor, Tensor]]:
        """Yield a tile's problems, columns, weights and probabilities [problems, groups, columns, width].

        The next tile overwrites the probabilities.
        """
        keys = self._layer.prefix_k_KPD[kv_head].index_select(0, self._sources.order).to(self.dtype)
        own_keys = self._layer.k_BKTD[:, kv_head, : self._end].to(self.dtype)
        for rows, tokens in self._steps:
            queries = self._layer.q_BHTD[rows, self.heads(kv_head), tokens].to(self.dtype) * keys.shape[-1] ** -0.5
            shape = (*queries.shape[:3], self.width)
            logits, alpha = (buffer[: math.prod(shape)].view(shape) for buffer in self._buffers)
            torch.mm(queries.flatten(0, 2), keys.mT, out=logits.view(-1, self.width)[:, : self._prefix])
            recent = logits.view(len(queries), -1, self.width)[..., self.slices[_CURRENT]]
            torch.bmm(queries.flatten(1, 2), own_keys[rows].mT, out=recent)
            logits[..., self._prefix :].masked_fill_(self._later[tokens], -torch.inf)
            torch.softmax(logits, dim=-1, out=alpha)
            yield rows, tokens, self._weights[rows, None, None, tokens], alpha


def _steps(problems: int, body: tuple[int, int], row_bytes: int, tile_bytes: int) -> Iterator[tuple[slice, slice]]:
    """Yield problems and columns of the tiles: whole bodies where these fit; `row_bytes` are those of a column."""
    width = body[1] - body[0]
    columns = max(1, min(width, tile_bytes // row_bytes))
    rows = max(1, tile_bytes // (row_bytes * width))
    for row in range(0, problems, rows):
        for column in range(*body, columns):
            yield slice(row, min(row + rows, problems)), slice(column, min(column + columns, body[1]))
