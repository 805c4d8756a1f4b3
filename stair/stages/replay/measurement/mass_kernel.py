"""The masses of one layer in one Triton kernel. Imports triton, so it is imported only when used.

Conventions as in `attention`. The kernel goes once over the keys and keeps, for every query, one sum of exponentials a category.
Products of 16-bit queries and keys are exact in FP32, in which they are added up.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from stair.method.reads.fused import channels_last, shared_memory

_TILE = {2: 64, 4: 32}
"""How many queries and how many keys a tile has, by the bytes of a number. Larger tiles of FP32 do not fit the registers."""
_LOWEST = tl.constexpr(-1e30)


@triton.jit
def _meet(
    q, keys, stride, low, high, tokens, scale, greatest,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """(greatest logit so far, the sum of exponentials, less that logit, over keys `low` to `high`), of every query."""
    channels = tl.arange(0, HEAD_DIM)
    total = tl.zeros_like(greatest)
    for start in range(low, high, BLOCK_N):
        places = start + tl.arange(0, BLOCK_N)
        inside = places < high
        k = tl.load(keys + places[:, None] * stride + channels[None, :], mask=inside[:, None], other=0.0)
        logits = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        seen = inside[None, :]
        if CAUSAL:
            seen = seen & (places[None, :] <= tokens[:, None])
        logits = tl.where(seen, logits, float("-inf"))
        larger = tl.maximum(greatest, tl.max(logits, 1))
        total = total * tl.exp2(greatest - larger) + tl.sum(tl.exp2(logits - larger[:, None]), 1)
        greatest = larger
    return greatest, total


@triton.jit
def _masses(
    Q, Prefix, Own, Ends, Out, stride_qb, stride_qh, stride_qt, stride_pk, stride_kb, stride_kk, stride_kt,
    heads, columns, scale,
    GROUPS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Out [problems, heads, columns, 4]. Prefix [kv_heads, positions, HEAD_DIM], sorted; Ends [3], where each category ends."""
    first = tl.program_id(0) * BLOCK_M
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    tokens = first + tl.arange(0, BLOCK_M)
    channels = tl.arange(0, HEAD_DIM)
    within = tokens < columns
    q = tl.load(
        Q + b.to(tl.int64) * stride_qb + h * stride_qh + tokens[:, None] * stride_qt + channels[None, :],
        mask=within[:, None], other=0.0,
    )  # fmt: skip
    kv = h // GROUPS
    prefix = Prefix + kv.to(tl.int64) * stride_pk
    own = Own + b.to(tl.int64) * stride_kb + kv * stride_kk
    end0, end1, end2 = tl.load(Ends).to(tl.int32), tl.load(Ends + 1).to(tl.int32), tl.load(Ends + 2).to(tl.int32)
    start = tl.full((BLOCK_M,), _LOWEST, tl.float32)
    m0, a0 = _meet(q, prefix, HEAD_DIM, 0, end0, tokens, scale, start, False, HEAD_DIM, BLOCK_N, PRECISION)
    m1, a1 = _meet(q, prefix, HEAD_DIM, end0, end1, tokens, scale, m0, False, HEAD_DIM, BLOCK_N, PRECISION)
    m2, a2 = _meet(q, prefix, HEAD_DIM, end1, end2, tokens, scale, m1, False, HEAD_DIM, BLOCK_N, PRECISION)
    last = tl.minimum(first + BLOCK_M, columns)
    m3, a3 = _meet(q, own, stride_kt, 0, last, tokens, scale, m2, True, HEAD_DIM, BLOCK_N, PRECISION)
    a0, a1, a2 = a0 * tl.exp2(m0 - m3), a1 * tl.exp2(m1 - m3), a2 * tl.exp2(m2 - m3)
    whole = a0 + a1 + a2 + a3
    out = Out + (tl.program_id(1).to(tl.int64) * columns + tokens) * 4
    tl.store(out, a0 / whole, mask=within)
    tl.store(out + 1, a1 / whole, mask=within)
    tl.store(out + 2, a2 / whole, mask=within)
    tl.store(out + 3, a3 / whole, mask=within)


def takes(q_BHTD: Tensor) -> bool:
    """Whether the kernel computes the masses of these queries: on a GPU with room for its tiles, in at most FP32."""
    head_dim = q_BHTD.shape[-1]
    if q_BHTD.dtype == torch.float64 or head_dim < 16 or head_dim & (head_dim - 1):
        return False
    if not q_BHTD.is_cuda:
        return triton.knobs.runtime.interpret
    # Queries stay in shared memory, two tiles of keys pass through it.
    needed = 3 * _TILE[q_BHTD.element_size()] * head_dim * q_BHTD.element_size()
    return torch.cuda.get_device_capability(q_BHTD.device) >= (8, 0) and needed <= shared_memory(q_BHTD)


def masses(q_BHTD: Tensor, prefix_k_KPD: Tensor, k_BKTD: Tensor, ends: Tensor, weights_BT: Tensor) -> Tensor:
    """Return the masses [B, 4] in FP32, as `attention.attend` does.

    The prefix's keys are sorted by category; `ends` [3] (integers) says where each category ends.
    """
    queries, prefix, own = (channels_last(tensor) for tensor in (q_BHTD, prefix_k_KPD.contiguous(), k_BKTD))
    problems, heads, columns, head_dim = queries.shape
    tile = _TILE[queries.element_size()]
    out = torch.empty(problems, heads, columns, 4, dtype=torch.float32, device=queries.device)
    _masses[(triton.cdiv(columns, tile), problems * heads)](
        queries, prefix, own, ends, out, *queries.stride()[:3], prefix.stride(0), *own.stride()[:3],
        heads, columns, head_dim**-0.5 * math.log2(math.e),
        GROUPS=heads // prefix.shape[0], HEAD_DIM=head_dim, BLOCK_M=tile, BLOCK_N=tile,
        # Float32 inputs are multiplied as float32, not rounded to TF32.
        PRECISION="ieee" if queries.dtype == torch.float32 else "tf32",
        num_warps=4, num_stages=2,
    )  # fmt: skip
    return (out.mean(1) * weights_BT.float()[:, :, None]).sum(1)
