"""The read as a mixture of ordinary reads, found in one pass over the bank. Measured beside the two-pass form; forward only.

With c = q^R - q and the softmax normalisers Z, Eq. 7 makes the reflected read a mixture of the reads of q^R and of c,

    r^R = a read(q^R) + (1 - a) read(c),    a / (1 - a) = [(1 - eps) Z(q^R) / Z(q)] / [(eps / M) Z(c)],

and the reference read is (1 - eps) read(q) + eps mean(v). One pass finds the three reads by online softmax: one product with
the keys and three with the values, where the two-pass form has two and one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from stair.method.reads.naive import unit_normals
from stair.method.reads.streaming import CPU_TILES, GPU_TILES, Tiles

LN2 = math.log(2.0)


def mix(logs: Tensor, reads: Tensor, mean: Tensor, length: Tensor, smoothing: float) -> Tensor:
    """Return the differential read from the three reads of q, q^R and c.

    `logs` [3, ..., tokens, 1]: log2 of their normalisers; `reads` [3, ..., tokens, d]; `mean` [..., 1, d] of the values.
    """
    odds = math.log2(1.0 - smoothing) + logs[1] - logs[0] - math.log2(smoothing) + length.log2() - logs[2]
    share = torch.sigmoid(odds * LN2)
    return share * reads[1] + (1.0 - share) * reads[2] - (1.0 - smoothing) * reads[0] - smoothing * mean


def read(
    queries: Tensor, keys: Tensor, values: Tensor, normals: Tensor, *, smoothing: float, tiles: Tiles | None = None
) -> Tensor:
    """The differential read [batch, heads, tokens, head_dim]; shapes as in `differential_read`, all of the bank, no gradient."""
    batch, _, tokens, head_dim = queries.shape
    kv_heads, bank = keys.shape[1:3]
    working = torch.float64 if queries.dtype == torch.float64 else torch.float32
    units = unit_normals(normals, queries.dtype).to(working).view(kv_heads, -1, head_dim)
    tiles = tiles or (GPU_TILES if queries.is_cuda else CPU_TILES)
    grouped = queries.to(working).view(batch, kv_heads, -1, tokens, head_dim) * (head_dim**-0.5 / LN2)
    step = max(1, tiles.rows // grouped.shape[2])
    out = torch.empty_like(grouped)
    for row in range(batch):
        for kv in range(kv_heads):
            mean = values[row, kv].to(working).mean(0)
            for start in range(0, tokens, step):
                tile = grouped[row, kv, :, start : start + step]
                logs, reads = _three_reads(tile, units[kv], keys[row, kv], values[row, kv], tiles.entries)
                entries = torch.tensor(float(bank), device=tile.device, dtype=working)
                out[row, kv, :, start : start + step] = mix(logs, reads, mean, entries, smoothing)
    return out.view(queries.shape).to(queries.dtype)


def _three_reads(queries: Tensor, units: Tensor, keys: Tensor, values: Tensor, step: int) -> tuple[Tensor, Tensor]:
    turn = -2.0 * torch.einsum("gtd,gd->gt", queries, units)[..., None]
    tops = queries.new_full((3, *queries.shape[:2], 1), -math.inf)
    sums = torch.zeros_like(tops)
    reads = queries.new_zeros(3, *queries.shape)
    flat = queries.reshape(-1, queries.shape[-1])
    for start in range(0, len(keys), step):
        k, v = (tensor[start : start + step].to(queries.dtype) for tensor in (keys, values))
        logit = (flat @ k.mT).view(*queries.shape[:2], -1)
        extra = turn * (units @ k.mT)[:, None]
        for index, scores in enumerate((logit, logit + extra, extra)):
            top = torch.maximum(tops[index], scores.amax(-1, keepdim=True))
            weights = scores.sub_(top).exp2_() if index else (scores - top).exp2_()
            decay = (tops[index] - top).exp2_()
            sums[index].mul_(decay).add_(weights.sum(-1, keepdim=True))
            reads[index].mul_(decay).add_((weights.view(len(flat), -1) @ v).view(queries.shape))
            tops[index] = top
    return tops + sums.log2(), reads / sums
