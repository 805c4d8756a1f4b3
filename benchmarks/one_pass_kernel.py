"""The one-pass form (one_pass.py) in Triton; conventions as in kernels.py. Forward only, for measurement."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from benchmarks.one_pass import mix
from stair.method.reads import fused
from stair.method.reads.kernels import _along, _entries, _queries, _row
from stair.method.reads.naive import unit_normals


@triton.jit
def _online(acc, top, total, scores, v, PRECISION: tl.constexpr):
    new_top = tl.maximum(top, tl.max(scores, 1))
    decay = tl.exp2(top - new_top)
    weight = tl.exp2(scores - new_top[:, None])
    acc = tl.dot(weight.to(v.dtype), v, acc * decay[:, None], input_precision=PRECISION)
    return acc, new_top, total * decay + tl.sum(weight, 1)


@triton.jit
def _store(Logs, Reads, index, where, rows, tokens, acc, top, total, plane, HEAD_DIM: tl.constexpr):
    at = index * plane + where
    tl.store(Logs + at, top + tl.log2(total), mask=rows < tokens)
    channels = tl.arange(0, HEAD_DIM)[None, :]
    tl.store(Reads + at[:, None] * HEAD_DIM + channels, acc / total[:, None], mask=(rows < tokens)[:, None])


@triton.jit
def three_reads(
    Q, K, V, Turn, Along, Logs, Reads,
    stride_qb, stride_qh, stride_qt, stride_kb, stride_kh, stride_km, stride_vb, stride_vh, stride_vm,
    heads, groups, tokens, bank, chunk, scale,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Reads [3, splits, batch, heads, tokens, HEAD_DIM] of q, q^R and c, and Logs, log2 of their normalisers."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    bh = tl.program_id(1)
    split = tl.program_id(2)
    b, h = bh // heads, bh % heads
    start = split * chunk
    end = tl.minimum(start + chunk, bank)
    q = _queries(Q, b, h, rows, tokens, stride_qb, stride_qh, stride_qt, HEAD_DIM)
    turn = _row(Turn, bh, rows, tokens)
    start_k = K + b.to(tl.int64) * stride_kb + (h // groups).to(tl.int64) * stride_kh
    start_v = V + b.to(tl.int64) * stride_vb + (h // groups).to(tl.int64) * stride_vh
    along = Along + bh.to(tl.int64) * bank
    acc_q = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    acc_r = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    acc_c = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    top_q = tl.full([BLOCK_M], float("-inf"), tl.float32)
    top_r = tl.full([BLOCK_M], float("-inf"), tl.float32)
    top_c = tl.full([BLOCK_M], float("-inf"), tl.float32)
    sum_q = tl.zeros([BLOCK_M], tl.float32)
    sum_r = tl.zeros([BLOCK_M], tl.float32)
    sum_c = tl.zeros([BLOCK_M], tl.float32)
    for first in range(start, end, BLOCK_N):
        entries = first + tl.arange(0, BLOCK_N)
        inside = entries < end
        k = _entries(start_k, entries, stride_km, inside, HEAD_DIM, True)
        v = _entries(start_v, entries, stride_vm, inside, HEAD_DIM, True)
        w = _along(along, entries, inside, True)
        logit = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        logit = tl.where(inside[None, :], logit, float("-inf"))
        extra = tl.where(inside[None, :], turn[:, None] * w[None, :], float("-inf"))
        acc_q, top_q, sum_q = _online(acc_q, top_q, sum_q, logit, v, PRECISION)
        acc_r, top_r, sum_r = _online(acc_r, top_r, sum_r, logit + extra, v, PRECISION)
        acc_c, top_c, sum_c = _online(acc_c, top_c, sum_c, extra, v, PRECISION)
    plane = (tl.num_programs(2) * tl.num_programs(1)).to(tl.int64) * tokens
    where = (split * tl.num_programs(1) + bh).to(tl.int64) * tokens + rows
    _store(Logs, Reads, 0, where, rows, tokens, acc_q, top_q, sum_q, plane, HEAD_DIM)
    _store(Logs, Reads, 1, where, rows, tokens, acc_r, top_r, sum_r, plane, HEAD_DIM)
    _store(Logs, Reads, 2, where, rows, tokens, acc_c, top_c, sum_c, plane, HEAD_DIM)


def read(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    normals: Tensor,
    *,
    smoothing: float,
    launch: fused.Launch | None = None,
) -> Tensor:
    """As `one_pass.read`."""
    batch, heads, tokens, head_dim = queries.shape
    launch = (launch or fused.Launch(64, 32, 8, 2)).for_prompt(tokens)
    units = unit_normals(normals, queries.dtype).float()
    lengths, launches = [keys.shape[2]] * batch, fused.Launches(launch, launch, launch)
    call = fused.Call(keys, values, lengths, None, smoothing, "differential", launches)
    row_lengths, _ = fused.row_facts(tuple(lengths), smoothing, queries.device)
    turn, (along, _) = call.turn(queries, units), call.along(units, row_lengths)
    grid, chunk = call.grid(launch, queries)
    logs = queries.new_empty(3, grid[2], batch, heads, tokens, 1, dtype=torch.float32)
    reads = queries.new_empty(3, grid[2], batch, heads, tokens, head_dim, dtype=torch.float32)
    three_reads[grid](
        queries, keys, values, turn, along, logs, reads, *queries.stride()[:3], *call.bank_strides,
        *call.scalars(queries, chunk), **call.options(queries, launch),
    )  # fmt: skip
    shares = torch.softmax(logs / fused.LOG2E, dim=1)
    log_normalizers = torch.logsumexp(logs / fused.LOG2E, dim=1) * fused.LOG2E
    mean = values.mean(2, keepdim=True, dtype=torch.float32).repeat_interleave(heads // keys.shape[1], dim=1)
    entries = torch.tensor(float(keys.shape[2]), device=queries.device)
    out = mix(log_normalizers, (shares * reads).sum(1), mean, entries, smoothing)
    return out.to(queries.dtype)
