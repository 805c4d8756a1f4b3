"""Masses and reads of a batch of current problems behind one shared prefix, in tiles; no attention matrix is stored.

B problems, H query heads, K key/value heads, T columns of the padded current turns, P positions of the prefix, D channels
of a head. The arithmetic is FP32, FP64 for FP64 input.

Every query of a current turn sees the whole prefix. So its positions may come in any order: sorted by category, each
category is one slice. All problems meet the prefix's keys in the same product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stair.measurement.categories import CATEGORIES
from stair.measurement.memory import CPU_TILE, GPU_TILE

_LANES = 16  # rows of a tile whose length is no multiple of it cost a product up to half its speed

_CURRENT = CATEGORIES.index("current")


@dataclass(frozen=True)
class Sources:
    """A prefix's positions by category: `order` sorts them, `slices` are the categories in that order."""

    order: Tensor
    slices: tuple[slice, ...]

    @classmethod
    def of(cls, categories: Sequence[int], device: torch.device) -> Sources:
        """From the index in CATEGORIES of every position of a prefix."""
        assert all(0 <= category < _CURRENT for category in categories), "a prefix has no current turn"
        of_positions = torch.tensor(categories, dtype=torch.long, device=device)
        ends = torch.bincount(of_positions, minlength=_CURRENT).cumsum(0).tolist()
        return cls(
            of_positions.argsort(stable=True),
            tuple(slice(start, end) for start, end in zip([0, *ends], ends, strict=False)),
        )


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
    """
    problems, heads, _, head_dim = layer.q_BHTD.shape
    kv_heads, prefix = layer.prefix_k_KPD.shape[:2]
    groups = heads // kv_heads
    working = torch.float64 if layer.q_BHTD.dtype == torch.float64 else torch.float32
    tile_bytes = tile_bytes or (GPU_TILE if layer.q_BHTD.is_cuda else CPU_TILE)
    weights = weights_BT.to(working)
    body = weights.any(0).nonzero()[:, 0]
    first, end = int(body[0]), int(body[-1]) + 1
    device = layer.q_BHTD.device
    per_token = output_projection is not None and layer.gate_BTHD is not None
    whole = -(-(prefix + end) // _LANES) * _LANES  # what is beyond the columns has no weight
    # Column t of a turn sees the columns up to t.
    later = torch.ones(end, whole - prefix, dtype=torch.bool, device=device).triu(1)
    average = torch.zeros(problems, heads, whole, dtype=working, device=device)
    read = torch.zeros(problems, len(CATEGORIES), heads, head_dim, dtype=working, device=device)
    slices = (*sources.slices, slice(prefix, prefix + end))

    # Allocated once: fresh tiles each time would cost more in page faults than the arithmetic in them.
    steps = list(_steps(problems, (first, end), groups * whole * weights.element_size(), tile_bytes))
    most = max((b.stop - b.start) * (t.stop - t.start) for b, t in steps)
    buffers = torch.empty(2, most * groups * whole, dtype=working, device=device)
    for kv_head in range(kv_heads):
        own = slice(kv_head * groups, (kv_head + 1) * groups)
        keys = layer.prefix_k_KPD[kv_head].index_select(0, sources.order).to(working)
        own_keys = layer.k_BKTD[:, kv_head, :end].to(working)
        values = own_values = None
        if output_projection is not None:
            values = layer.prefix_v_KPD[kv_head].index_select(0, sources.order).to(working)
            own_values = layer.v_BKTD[:, kv_head, :end].to(working)
        for rows, tokens in steps:
            queries = layer.q_BHTD[rows, own, tokens].to(working) * head_dim**-0.5
            count, _, width, _ = queries.shape
            shape = (count, groups, width, whole)
            logits, alpha = (buffer[: math.prod(shape)].view(shape) for buffer in buffers)
            torch.mm(queries.reshape(-1, head_dim), keys.mT, out=logits.view(-1, whole)[:, :prefix])
            recent = logits.view(count, -1, whole)[..., prefix : prefix + end]
            torch.bmm(queries.reshape(count, -1, head_dim), own_keys[rows].mT, out=recent)
            logits[..., prefix:].masked_fill_(later[tokens], -torch.inf)
            torch.softmax(logits, dim=-1, out=alpha)
            share = weights[rows, None, None, tokens]
            average[rows, own] += (share @ alpha)[:, :, 0]
            if per_token:
                assert layer.gate_BTHD is not None and values is not None and own_values is not None
                gate = torch.sigmoid(layer.gate_BTHD[rows, tokens, own].to(working)).transpose(1, 2)
                for category, span in enumerate(slices):
                    part = alpha[..., span]
                    met = values[span] if category != _CURRENT else own_values[rows, None]
                    read[rows, category, own] += (share @ (gate * (part @ met)))[:, :, 0]
        if output_projection is not None and not per_token:
            assert values is not None and own_values is not None
            for category, span in enumerate(slices):
                met = values[span] if category != _CURRENT else own_values
                read[:, category, own] = average[:, own, span] @ met
    mean = average.mean(1)
    masses = torch.stack([mean[:, span].sum(-1) for span in slices], dim=1)
    if output_projection is None:
        return masses, None
    return masses, read.flatten(2) @ output_projection.to(working).mT


def _steps(problems: int, body: tuple[int, int], row_bytes: int, tile_bytes: int) -> Iterator[tuple[slice, slice]]:
    """Yield problems and columns of the tiles: whole bodies where these fit; `row_bytes` are those of a column."""
    width = body[1] - body[0]
    columns = max(1, min(width, tile_bytes // row_bytes))
    rows = max(1, tile_bytes // (row_bytes * width))
    for row in range(0, problems, rows):
        for column in range(*body, columns):
            yield slice(row, min(row + rows, problems)), slice(column, min(column + columns, body[1]))
