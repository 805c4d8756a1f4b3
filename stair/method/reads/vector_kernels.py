"""Triton kernels around the passes that take no matrix product: u.q, u.k and its gradient, and the splits' sums put together.

Each replaces five to twenty-five calls of torch, which cost a short read more than the passes do. Conventions as in kernels.py;
Units [heads, HEAD_DIM] in float32.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False

import triton
import triton.language as tl

from stair.method.reads.kernels import _entries, _queries


@triton.jit
def turns(
    Q, Units, Turn, stride_qb, stride_qh, stride_qt, heads, tokens, factor,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Turn = factor x u.q of every head and token."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    bh = tl.program_id(1)
    b, h = bh // heads, bh % heads
    q = _queries(Q, b, h, rows, tokens, stride_qb, stride_qh, stride_qt, HEAD_DIM).to(tl.float32)
    unit = tl.load(Units + h * HEAD_DIM + tl.arange(0, HEAD_DIM))
    turn = tl.sum(q * unit[None, :], 1) * factor
    tl.store(Turn + bh.to(tl.int64) * tokens + rows, turn, mask=rows < tokens)


@triton.jit
def along(
    K, Units, Lengths, Along, Least, stride_kb, stride_kh, stride_km, kv_heads, bank,
    GROUPS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Along = u.k of every head and entry, zero past a row's length.

    Least [2, batch, heads, blocks]: the least u.k of each block of entries, and the least -u.k; inf where a block is empty.
    """
    block = tl.program_id(0)
    bkv = tl.program_id(1)
    b, kv = bkv // kv_heads, bkv % kv_heads
    entries = block * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = entries < tl.load(Lengths + b)
    start = K + b.to(tl.int64) * stride_kb + kv.to(tl.int64) * stride_kh
    k = _entries(start, entries, stride_km, inside, HEAD_DIM, True).to(tl.float32)
    blocks = tl.num_programs(0)
    plane = tl.num_programs(1).to(tl.int64) * GROUPS * blocks
    for group in tl.static_range(GROUPS):
        unit = tl.load(Units + (kv * GROUPS + group) * HEAD_DIM + tl.arange(0, HEAD_DIM))
        w = tl.sum(k * unit[None, :], 1)
        bh = (bkv * GROUPS + group).to(tl.int64)
        tl.store(Along + bh * bank + entries, w, mask=entries < bank)
        tl.store(Least + bh * blocks + block, tl.min(tl.where(inside, w, float("inf"))))
        tl.store(Least + plane + bh * blocks + block, tl.min(tl.where(inside, -w, float("inf"))))


@triton.jit
def spread(
    K, Lengths, DAlong, DUnits, stride_kb, stride_kh, stride_km, heads, groups, bank, chunk,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """DUnits [splits, batch, heads, HEAD_DIM]: what reaches the units through Along, summed over a split."""
    split = tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    b, h = bh // heads, bh % heads
    first = split * chunk
    end = tl.minimum(first + chunk, tl.load(Lengths + b))
    start = K + b * stride_kb + h // groups * stride_kh
    total = tl.zeros([HEAD_DIM], tl.float32)
    for block in range(first, end, BLOCK_N):
        entries = block + tl.arange(0, BLOCK_N)
        inside = entries < end
        k = _entries(start, entries, stride_km, inside, HEAD_DIM, True).to(tl.float32)
        total += tl.sum(k * tl.load(DAlong + bh * bank + entries, mask=inside, other=0.0)[:, None], 0)
    out = (split * tl.num_programs(1) + bh) * HEAD_DIM + tl.arange(0, HEAD_DIM)
    tl.store(DUnits + out, total)


@triton.jit
def _whole(Sums, index, at, inside, splits, count):
    """log2 of the sum over the splits of exp2(Sums[index])."""
    start = Sums + index * splits * count
    top = tl.load(start + at, mask=inside, other=0.0)
    for split in range(1, splits):
        top = tl.maximum(top, tl.load(start + split * count + at, mask=inside, other=0.0))
    base = tl.where(top == float("-inf"), 0.0, top)
    total = tl.zeros_like(top)
    for split in range(splits):
        total += tl.exp2(tl.load(start + split * count + at, mask=inside, other=0.0) - base)
    return base + tl.log2(total)


@triton.jit
def combine(
    Sums, Lengths, Plain, LogN, Share, splits, count, per_row, smoothing, log_share, BLOCK: tl.constexpr
):  # fmt: skip
    """From Sums [3, splits, count], the logarithms that `normalisers` found: Plain less log(1 - eps), LogN, and the share
    of the reflected softmax in pi_R at pi_R / pi_ref = 1 (streaming.py). `per_row` counts a row's heads x tokens."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    plain = _whole(Sums, 0, at, inside, splits, count)
    shifted = _whole(Sums, 1, at, inside, splits, count)
    change = _whole(Sums, 2, at, inside, splits, count)
    length = tl.maximum(tl.load(Lengths + at // per_row, mask=inside, other=1), 1).to(tl.float32)
    a = log_share + shifted - plain
    b = tl.log2(smoothing / length) + change
    top = tl.maximum(a, b)
    log_n = top + tl.log2(tl.exp2(a - top) + tl.exp2(b - top))
    tl.store(Plain + at, plain - log_share, mask=inside)
    tl.store(LogN + at, log_n, mask=inside)
    tl.store(Share + at, tl.exp2(shifted - plain - log_n), mask=inside)
