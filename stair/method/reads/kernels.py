"""Triton kernels of the fused read. The mathematics and the names are those of streaming.py; logarithms are to base 2.

A program handles BLOCK_M tokens of one query head over one stretch of the bank ("split"), so that a short prompt still fills
the device; the host adds up what the splits found. Queries, keys and values are read in their own dtype, sums are float32.
Shapes: Q, G, DQ [batch, heads, tokens, HEAD_DIM] and K, V [batch, kv_heads, bank, HEAD_DIM] with their strides; Turn, Plain,
LogN, Mean, Level [batch, heads, tokens]; Along, DAlong [batch, heads, bank]; Ends [2, batch, heads], the least u.k and the least
-u.k; Floor, Lengths [batch]; Order [batch, kv_heads, bank]; outputs of a pass have the split as their first dimension.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False

import triton
import triton.language as tl

LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _row(T, index, rows, tokens):
    return tl.load(T + index.to(tl.int64) * tokens + rows, mask=rows < tokens, other=0.0)


@triton.jit
def _queries(X, b, h, rows, tokens, stride_b, stride_h, stride_t, HEAD_DIM: tl.constexpr):
    channels = tl.arange(0, HEAD_DIM)
    start = X + b.to(tl.int64) * stride_b + h.to(tl.int64) * stride_h
    return tl.load(start + rows[:, None] * stride_t + channels[None, :], mask=(rows < tokens)[:, None], other=0.0)


@triton.jit
def _entries(start, entries, stride_m, inside, HEAD_DIM: tl.constexpr, MASKED: tl.constexpr):
    """[BLOCK_N, HEAD_DIM] of the bank."""
    where = start + entries.to(tl.int64)[:, None] * stride_m + tl.arange(0, HEAD_DIM)[None, :]
    if MASKED:
        return tl.load(where, mask=inside[:, None], other=0.0)
    return tl.load(where)


@triton.jit
def _along(along, entries, inside, MASKED: tl.constexpr):
    if MASKED:
        return tl.load(along + entries, mask=inside, other=0.0)
    return tl.load(along + entries)


@triton.jit
def _value_rows(order, entries, inside, ORDERED: tl.constexpr, MASKED: tl.constexpr):
    """Where the values of these entries lie."""
    # One return: the compiler wants every return of one type, also those that it will not take.
    rows = entries
    if ORDERED:
        rows = tl.load(order + entries, mask=inside, other=0) if MASKED else tl.load(order + entries)
    return rows


@triton.jit
def _next(along, first, end, BLOCK_N: tl.constexpr):
    """Along of the entries from `first` on, loaded a block ahead: Triton's pipeline fetches ahead only what a matrix
    product takes. On an H100 this took an eighth off both passes that use it."""
    entries = first + tl.arange(0, BLOCK_N)
    return tl.load(along + entries, mask=entries < end, other=0.0)


@triton.jit
def _add_three(a, b, c, other_a, other_b, other_c):
    return a + other_a, b + other_b, c + other_c


@triton.jit
def _sum_block(
    q, turn, peak, start_k, w, first, end, scale, top_l, sum_l, sum_r, sum_e, stride_m,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add BLOCK_N entries to the running sums of exp2(l), exp2(l + e) and exp2(e)."""
    entries = first + tl.arange(0, BLOCK_N)
    inside = entries < end
    k = _entries(start_k, entries, stride_m, inside, HEAD_DIM, MASKED)
    product = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    e = turn[:, None] * w[None, :]
    if MASKED:
        product = tl.where(inside[None, :], product, float("-inf"))
        e = tl.where(inside[None, :], e, float("-inf"))
    new_top = tl.maximum(top_l, tl.max(product, 1) * scale)
    decay = tl.exp2(top_l - new_top)
    p = tl.exp2(product * scale - new_top[:, None])
    x = tl.exp2(e - peak[:, None])
    # p x for exp2(l + e): see streaming.py for why its underflow does not matter. One reduction of all three: alone, x
    # would be computed a second time in a layout apart from the product's, since no product is behind it.
    found_l, found_r, found_e = tl.reduce((p, p * x, x), 1, _add_three)
    sum_l = sum_l * decay + found_l
    sum_r = sum_r * decay + found_r
    sum_e += found_e
    return new_top, sum_l, sum_r, sum_e


@triton.jit
def _sum_split(
    q, turn, peak, start_k, along, start, end, scale, stride_m,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    top_l = tl.full([BLOCK_M], float("-inf"), tl.float32)
    sum_l = tl.zeros([BLOCK_M], tl.float32)
    sum_r = tl.zeros([BLOCK_M], tl.float32)
    sum_e = tl.zeros([BLOCK_M], tl.float32)
    whole = start + (end - start) // BLOCK_N * BLOCK_N
    w = _next(along, start, end, BLOCK_N)
    for first in range(start, whole, BLOCK_N):
        ahead = _next(along, first + BLOCK_N, end, BLOCK_N)
        top_l, sum_l, sum_r, sum_e = _sum_block(
            q, turn, peak, start_k, w, first, end, scale, top_l, sum_l, sum_r, sum_e, stride_m,
            HEAD_DIM, BLOCK_N, False, PRECISION,
        )  # fmt: skip
        w = ahead
    if whole < end:
        top_l, sum_l, sum_r, sum_e = _sum_block(
            q, turn, peak, start_k, w, whole, end, scale, top_l, sum_l, sum_r, sum_e, stride_m,
            HEAD_DIM, BLOCK_N, True, PRECISION,
        )  # fmt: skip
    return top_l + tl.log2(sum_l), top_l + peak + tl.log2(sum_r), peak + tl.log2(sum_e)


@triton.jit
def normalisers(
    Q, K, Turn, Along, Ends, Lengths, Plain, Shifted, Change,
    stride_qb, stride_qh, stride_qt, stride_kb, stride_kh, stride_km, heads, groups, tokens, bank, chunk, scale,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """First pass: log2 of the sums of exp(l), exp(l + e), exp(e) over the program's split; -inf where it is empty."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    bh = tl.program_id(1)
    split = tl.program_id(2)
    b, h = bh // heads, bh % heads
    start = split * chunk
    end = tl.minimum(start + chunk, tl.load(Lengths + b))
    out = (split * tl.num_programs(1) + bh).to(tl.int64) * tokens + rows
    if start < end:
        q = _queries(Q, b, h, rows, tokens, stride_qb, stride_qh, stride_qt, HEAD_DIM)
        turn = _row(Turn, bh, rows, tokens)
        low, high = tl.load(Ends + bh), -tl.load(Ends + tl.num_programs(1) + bh)
        peak = tl.where(turn > 0, turn * high, turn * low)
        start_k = K + b.to(tl.int64) * stride_kb + (h // groups).to(tl.int64) * stride_kh
        along = Along + bh.to(tl.int64) * bank
        plain, shifted, change = _sum_split(
            q, turn, peak, start_k, along, start, end, scale, stride_km, HEAD_DIM, BLOCK_M, BLOCK_N, PRECISION
        )
    else:
        plain = tl.full([BLOCK_M], float("-inf"), tl.float32)
        shifted = tl.full([BLOCK_M], float("-inf"), tl.float32)
        change = tl.full([BLOCK_M], float("-inf"), tl.float32)
    tl.store(Plain + out, plain, mask=rows < tokens)
    tl.store(Shifted + out, shifted, mask=rows < tokens)
    tl.store(Change + out, change, mask=rows < tokens)


@triton.jit
def _weights(q, k, w, turn, plain, log_n, floor, scale, inside, MASKED: tl.constexpr, PRECISION: tl.constexpr):
    """(pi_ref, log2 rho) of a tile; both such that entries outside carry nothing: pi_ref 0."""
    logit = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    reference = tl.exp2(logit - plain[:, None]) + floor
    ratio = turn[:, None] * w[None, :] - log_n[:, None]
    if MASKED:
        reference = tl.where(inside[None, :], reference, 0.0)
        ratio = tl.where(inside[None, :], ratio, 0.0)
    return reference, ratio


@triton.jit
def _rise(x, EXACT: tl.constexpr):
    """exp2(x) - 1, in the inputs' precision: for 16-bit inputs what cancels is far below their rounding."""
    direct = tl.exp2(x) - 1.0
    if EXACT:
        y = x * LN2
        series = y * (1.0 + y * (0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0 + y / 120.0))))
        return tl.where(tl.abs(y) < 0.1, series, direct)
    return direct


@triton.jit
def _read_block(
    acc, q, turn, plain, log_n, floor, start_k, start_v, along, order, first, end, scale, stride_km, stride_vm,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, ORDERED: tl.constexpr,
    DIFFERENTIAL: tl.constexpr, EXACT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    entries = first + tl.arange(0, BLOCK_N)
    inside = entries < end
    k = _entries(start_k, entries, stride_km, inside, HEAD_DIM, MASKED)
    v = _entries(start_v, _value_rows(order, entries, inside, ORDERED, MASKED), stride_vm, inside, HEAD_DIM, MASKED)
    w = _along(along, entries, inside, MASKED)
    reference, ratio = _weights(q, k, w, turn, plain, log_n, floor, scale, inside, MASKED, PRECISION)
    if DIFFERENTIAL:
        weight = reference * _rise(ratio, EXACT)
    else:
        weight = reference * tl.exp2(ratio)
    return tl.dot(weight.to(v.dtype), v, acc, input_precision=PRECISION)


@triton.jit
def read(
    Q, K, V, Turn, Along, Plain, LogN, Floor, Lengths, Order, Out,
    stride_qb, stride_qh, stride_qt, stride_kb, stride_kh, stride_km, stride_vb, stride_vh, stride_vm,
    heads, groups, tokens, bank, chunk, scale,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ORDERED: tl.constexpr,
    DIFFERENTIAL: tl.constexpr, EXACT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Second pass: the values under the weights, Out [splits, batch, heads, tokens, HEAD_DIM]; Plain is less log(1 - eps)."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    bh = tl.program_id(1)
    split = tl.program_id(2)
    b, h = bh // heads, bh % heads
    start = split * chunk
    end = tl.minimum(start + chunk, tl.load(Lengths + b))
    q = _queries(Q, b, h, rows, tokens, stride_qb, stride_qh, stride_qt, HEAD_DIM)
    turn, plain, log_n = _row(Turn, bh, rows, tokens), _row(Plain, bh, rows, tokens), _row(LogN, bh, rows, tokens)
    floor = tl.load(Floor + b)
    kv = (h // groups).to(tl.int64)
    start_k = K + b.to(tl.int64) * stride_kb + kv * stride_kh
    start_v = V + b.to(tl.int64) * stride_vb + kv * stride_vh
    along = Along + bh.to(tl.int64) * bank
    order = Order + (b * (heads // groups) + kv) * bank
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    whole = start + tl.maximum(end - start, 0) // BLOCK_N * BLOCK_N
    for first in range(start, whole, BLOCK_N):
        acc = _read_block(
            acc, q, turn, plain, log_n, floor, start_k, start_v, along, order, first, end, scale, stride_km, stride_vm,
            HEAD_DIM, BLOCK_N, False, ORDERED, DIFFERENTIAL, EXACT, PRECISION,
        )  # fmt: skip
    if whole < end:
        acc = _read_block(
            acc, q, turn, plain, log_n, floor, start_k, start_v, along, order, whole, end, scale, stride_km, stride_vm,
            HEAD_DIM, BLOCK_N, True, ORDERED, DIFFERENTIAL, EXACT, PRECISION,
        )  # fmt: skip
    out = ((split * tl.num_programs(1) + bh).to(tl.int64) * tokens + rows)[:, None] * HEAD_DIM
    tl.store(Out + out + tl.arange(0, HEAD_DIM)[None, :], acc.to(Out.dtype.element_ty), mask=(rows < tokens)[:, None])
