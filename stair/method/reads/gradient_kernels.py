"""Triton kernels of the fused read's backward; conventions as in kernels.py."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False

import triton
import triton.language as tl

from stair.method.reads.kernels import _along, _entries, _next, _queries, _row, _value_rows, _weights


@triton.jit
def _mean_block(
    mean, tilted, straight, q, g, turn, plain, log_n, floor, start_k, start_v, w, order, first, end, scale,
    stride_km, stride_vm, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, ORDERED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    entries = first + tl.arange(0, BLOCK_N)
    inside = entries < end
    k = _entries(start_k, entries, stride_km, inside, HEAD_DIM, MASKED)
    v = _entries(start_v, _value_rows(order, entries, inside, ORDERED, MASKED), stride_vm, inside, HEAD_DIM, MASKED)
    reference, ratio = _weights(q, k, w, turn, plain, log_n, floor, scale, inside, MASKED, PRECISION)
    h = tl.dot(g, tl.trans(v), input_precision=PRECISION)  # zero outside, where v is
    moved = tl.exp2(ratio) * h
    softmax = reference - floor
    return mean + tl.sum(reference * moved, 1), tilted + tl.sum(softmax * moved, 1), straight + tl.sum(softmax * h, 1)


@triton.jit
def means(
    Q, G, K, V, Turn, Along, Plain, LogN, Floor, Lengths, Order, Mean, Tilted, Straight,
    stride_qb, stride_qh, stride_qt, stride_gb, stride_gh, stride_gt,
    stride_kb, stride_kh, stride_km, stride_vb, stride_vh, stride_vm, heads, groups, tokens, bank, chunk, scale,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ORDERED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums of h over the split under pi_R, (1 - eps) s rho and (1 - eps) s."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    bh = tl.program_id(1)
    split = tl.program_id(2)
    b, h = bh // heads, bh % heads
    start = split * chunk
    end = tl.minimum(start + chunk, tl.load(Lengths + b))
    q = _queries(Q, b, h, rows, tokens, stride_qb, stride_qh, stride_qt, HEAD_DIM)
    g = _queries(G, b, h, rows, tokens, stride_gb, stride_gh, stride_gt, HEAD_DIM)
    turn, plain, log_n = _row(Turn, bh, rows, tokens), _row(Plain, bh, rows, tokens), _row(LogN, bh, rows, tokens)
    floor = tl.load(Floor + b)
    kv = (h // groups).to(tl.int64)
    start_k = K + b.to(tl.int64) * stride_kb + kv * stride_kh
    start_v = V + b.to(tl.int64) * stride_vb + kv * stride_vh
    along = Along + bh.to(tl.int64) * bank
    order = Order + (b * (heads // groups) + kv) * bank
    mean = tl.zeros([BLOCK_M], tl.float32)
    tilted = tl.zeros([BLOCK_M], tl.float32)
    straight = tl.zeros([BLOCK_M], tl.float32)
    whole = start + tl.maximum(end - start, 0) // BLOCK_N * BLOCK_N
    w = _next(along, start, end, BLOCK_N)
    for first in range(start, whole, BLOCK_N):
        ahead = _next(along, first + BLOCK_N, end, BLOCK_N)
        mean, tilted, straight = _mean_block(
            mean, tilted, straight, q, g, turn, plain, log_n, floor, start_k, start_v, w, order, first, end, scale,
            stride_km, stride_vm, HEAD_DIM, BLOCK_N, False, ORDERED, PRECISION,
        )  # fmt: skip
        w = ahead
    if whole < end:
        mean, tilted, straight = _mean_block(
            mean, tilted, straight, q, g, turn, plain, log_n, floor, start_k, start_v, w, order, whole, end, scale,
            stride_km, stride_vm, HEAD_DIM, BLOCK_N, True, ORDERED, PRECISION,
        )  # fmt: skip
    out = (split * tl.num_programs(1) + bh).to(tl.int64) * tokens + rows
    tl.store(Mean + out, mean, mask=rows < tokens)
    tl.store(Tilted + out, tilted, mask=rows < tokens)
    tl.store(Straight + out, straight, mask=rows < tokens)


@triton.jit
def _gradient_block(
    dq, d_turn, q, g, turn, plain, log_n, mean, level, floor, start_k, start_v, along, d_along, order, first, end, scale,
    stride_km, stride_vm, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, ORDERED: tl.constexpr,
    DIFFERENTIAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    entries = first + tl.arange(0, BLOCK_N)
    inside = entries < end
    k = _entries(start_k, entries, stride_km, inside, HEAD_DIM, MASKED)
    v = _entries(start_v, _value_rows(order, entries, inside, ORDERED, MASKED), stride_vm, inside, HEAD_DIM, MASKED)
    w = _along(along, entries, inside, MASKED)
    reference, ratio = _weights(q, k, w, turn, plain, log_n, floor, scale, inside, MASKED, PRECISION)
    h = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    y = (h - mean[:, None]) * tl.exp2(ratio)
    d_extra = reference * y
    if DIFFERENTIAL:
        y -= h
    d_logit = (reference - floor) * (y - level[:, None])
    if MASKED:
        d_logit = tl.where(inside[None, :], d_logit, 0.0)
    dq = tl.dot(d_logit.to(k.dtype), k, dq, input_precision=PRECISION)
    d_turn += tl.sum(d_extra * w[None, :], 1)
    # Few programs meet at an entry: one for each tile of tokens.
    tl.atomic_add(d_along + entries, tl.sum(d_extra * turn[:, None], 0), mask=inside, sem="relaxed")
    return dq, d_turn


@triton.jit
def gradients(
    Q, G, K, V, Turn, Along, Plain, LogN, Mean, Level, Floor, Lengths, Order, DQ, DTurn, DAlong,
    stride_qb, stride_qh, stride_qt, stride_gb, stride_gh, stride_gt,
    stride_kb, stride_kh, stride_km, stride_vb, stride_vh, stride_vm, heads, groups, tokens, bank, chunk, scale,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ORDERED: tl.constexpr,
    DIFFERENTIAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """DQ [splits, batch, heads, tokens, HEAD_DIM] through l, DTurn [splits, batch, heads, tokens] and DAlong through e."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    bh = tl.program_id(1)
    split = tl.program_id(2)
    b, h = bh // heads, bh % heads
    start = split * chunk
    end = tl.minimum(start + chunk, tl.load(Lengths + b))
    q = _queries(Q, b, h, rows, tokens, stride_qb, stride_qh, stride_qt, HEAD_DIM)
    g = _queries(G, b, h, rows, tokens, stride_gb, stride_gh, stride_gt, HEAD_DIM)
    turn, plain, log_n = _row(Turn, bh, rows, tokens), _row(Plain, bh, rows, tokens), _row(LogN, bh, rows, tokens)
    mean, level = _row(Mean, bh, rows, tokens), _row(Level, bh, rows, tokens)
    floor = tl.load(Floor + b)
    kv = (h // groups).to(tl.int64)
    start_k = K + b.to(tl.int64) * stride_kb + kv * stride_kh
    start_v = V + b.to(tl.int64) * stride_vb + kv * stride_vh
    along, d_along = Along + bh.to(tl.int64) * bank, DAlong + bh.to(tl.int64) * bank
    order = Order + (b * (heads // groups) + kv) * bank
    dq = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    d_turn = tl.zeros([BLOCK_M], tl.float32)
    whole = start + tl.maximum(end - start, 0) // BLOCK_N * BLOCK_N
    for first in range(start, whole, BLOCK_N):
        dq, d_turn = _gradient_block(
            dq, d_turn, q, g, turn, plain, log_n, mean, level, floor, start_k, start_v, along, d_along, order, first, end,
            scale, stride_km, stride_vm, HEAD_DIM, BLOCK_N, False, ORDERED, DIFFERENTIAL, PRECISION,
        )  # fmt: skip
    if whole < end:
        dq, d_turn = _gradient_block(
            dq, d_turn, q, g, turn, plain, log_n, mean, level, floor, start_k, start_v, along, d_along, order, whole, end,
            scale, stride_km, stride_vm, HEAD_DIM, BLOCK_N, True, ORDERED, DIFFERENTIAL, PRECISION,
        )  # fmt: skip
    out = (split * tl.num_programs(1) + bh).to(tl.int64) * tokens + rows
    tl.store(DTurn + out, d_turn, mask=rows < tokens)
    tl.store(DQ + out[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :], dq, mask=(rows < tokens)[:, None])
