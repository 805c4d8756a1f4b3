"""The read in Triton: launching the kernels, and autograd around them. Imports triton, so it is imported only when used."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from stair.core import Readout
from stair.method.reads import gradient_kernels, kernels, vector_kernels
from stair.method.reads.naive import unit_normals

LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class Launch:
    """A kernel's tile (tokens x entries), its warps, its software pipeline's stages, and how often it splits the bank."""

    tokens: int
    entries: int
    warps: int
    stages: int
    splits: int | None = None  # None: as many as fill the device

    def for_prompt(self, tokens: int) -> Launch:
        """A tile is no taller than the prompt needs; 16 is the least a matrix product takes."""
        needed = max(16, triton.next_power_of_2(tokens))
        return Launch(min(self.tokens, needed), self.entries, self.warps, self.stages, self.splits)


@dataclass(frozen=True)
class Launches:
    """One Launch for each pass; `backward` serves both of the backward's."""

    normalisers: Launch
    read: Launch
    backward: Launch


# In order of preference, for head dims up to 128 and beyond: (tokens, entries, warps, stages). The first of each were the
# fastest on an H100 with a bank of 80,700 entries and 256 tokens (docs/developers/experiments.md), and compile for sm_90 without
# spilling a register; the others are for devices with less shared memory.
_SMALLER = ((64, 32, 8, 2), (64, 32, 4, 1), (32, 32, 4, 1), (16, 16, 4, 1))
CANDIDATES: dict[str, tuple[tuple[tuple[int, int, int, int], ...], ...]] = {
    "normalisers": (((64, 128, 4, 3), (64, 64, 4, 3), (64, 64, 4, 2)), ((128, 32, 8, 3), (128, 32, 8, 2))),
    "read": (((64, 32, 4, 3), (64, 32, 4, 2)), ((128, 64, 8, 2), (64, 64, 8, 2))),
    "backward": (((64, 64, 4, 3), (64, 64, 8, 2)), ((128, 32, 8, 2), (64, 32, 8, 2))),
}
# How many tiles of tokens stay in shared memory, and how many tiles of entries each stage brings in.
_OPERANDS = {"normalisers": (1, 1), "read": (1, 2), "backward": (2, 2)}


@functools.cache
def choose_launches(head_dim: int, itemsize: int, shared_memory: int) -> Launches:
    """Return the preferred launches among those whose operands fit `shared_memory` bytes."""

    def first_fitting(name: str) -> Launch:
        resident, streamed = _OPERANDS[name]
        for tokens, entries, warps, stages in CANDIDATES[name][head_dim > 128] + _SMALLER:
            bytes_needed = (resident * tokens + streamed * stages * entries) * head_dim * itemsize + 4096
            if bytes_needed <= shared_memory:
                return Launch(tokens, entries, warps, stages)
        raise ValueError(
            f"backend 'triton' finds no tile of head dim {head_dim} for {shared_memory} bytes of shared memory"
        )

    return Launches(first_fitting("normalisers"), first_fitting("read"), first_fitting("backward"))


@dataclass(frozen=True)
class Call:
    """The constants of one read, which every pass needs. Shapes as in kernels.py."""

    keys: Tensor
    values: Tensor
    lengths: list[int]
    order: Tensor | None
    smoothing: float
    variant: Readout
    launches: Launches

    def grid(self, launch: Launch, queries: Tensor) -> tuple[tuple[int, int, int], int]:
        """(programs, entries in a split) of a pass."""
        batch, heads, tokens, _ = queries.shape
        tiles = triton.cdiv(tokens, launch.tokens)
        blocks = triton.cdiv(self.keys.shape[2], launch.entries)
        splits = launch.splits
        if splits is None:
            splits = triton.cdiv(2 * _processors(queries), tiles * batch * heads)
        splits = max(1, min(splits, triton.cdiv(blocks, 4)))
        chunk = triton.cdiv(blocks, splits) * launch.entries
        return (tiles, batch * heads, triton.cdiv(self.keys.shape[2], chunk)), chunk

    def scalars(self, queries: Tensor, chunk: int) -> tuple[Any, ...]:
        _, heads, tokens, head_dim = queries.shape
        groups = heads // self.keys.shape[1]
        return heads, groups, tokens, self.keys.shape[2], chunk, head_dim**-0.5 * LOG2E

    def options(self, queries: Tensor, launch: Launch) -> dict[str, Any]:
        return {
            "HEAD_DIM": queries.shape[-1],
            "BLOCK_M": launch.tokens,
            "BLOCK_N": launch.entries,
            # Float32 inputs are multiplied as float32, not rounded to TF32.
            "PRECISION": "ieee" if queries.dtype == torch.float32 else "tf32",
            "num_warps": launch.warps,
            "num_stages": launch.stages,
        }

    @property
    def bank_strides(self) -> tuple[int, ...]:
        return (*self.keys.stride()[:3], *self.values.stride()[:3])

    @property
    def order_argument(self) -> Tensor:
        return self.keys if self.order is None else self.order

    @property
    def flat_options(self) -> dict[str, int]:
        """Of the kernels without a matrix product: a tile of entries or tokens that stays in registers."""
        return {"HEAD_DIM": self.keys.shape[-1], "num_warps": 4}

    def turn(self, queries: Tensor, units: Tensor) -> Tensor:
        """e = turn x along: -2 u.q of every head and token, with the scale, [batch, heads, tokens] in float32."""
        batch, heads, tokens, head_dim = queries.shape
        out = queries.new_empty(batch, heads, tokens, dtype=torch.float32)
        vector_kernels.turns[(triton.cdiv(tokens, FLAT), batch * heads)](
            queries, units, out, *queries.stride()[:3], heads, tokens, -2.0 * head_dim**-0.5 * LOG2E,
            BLOCK_M=FLAT, **self.flat_options,
        )  # fmt: skip
        return out

    def along(self, units: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(u.k of every head and entry, [batch, heads, bank] in float32, zero past a row's length; its ends [2, batch, heads]).

        The ends are the least u.k and the least -u.k.
        """
        batch, kv_heads, bank, _ = self.keys.shape
        heads, blocks = units.shape[0], triton.cdiv(bank, FLAT)
        out = units.new_empty(batch, heads, bank)
        least = units.new_empty(2, batch, heads, blocks)
        vector_kernels.along[(blocks, batch * kv_heads)](
            self.keys, units, lengths, out, least, *self.keys.stride()[:3], kv_heads, bank,
            GROUPS=heads // kv_heads, BLOCK_N=FLAT, **self.flat_options,
        )  # fmt: skip
        return out, least.amin(-1)

    def spread(self, d_along: Tensor, lengths: Tensor) -> Tensor:
        """The gradient [heads, head_dim] that reaches the units through `along`."""
        batch, heads, bank = d_along.shape
        splits = triton.cdiv(2 * _processors(d_along), batch * heads)
        chunk = triton.cdiv(bank, splits * FLAT) * FLAT
        splits = triton.cdiv(bank, chunk)
        out = d_along.new_empty(splits, batch, heads, self.keys.shape[-1])
        vector_kernels.spread[(splits, batch * heads)](
            self.keys, lengths, d_along, out, *self.keys.stride()[:3], heads, heads // self.keys.shape[1], bank, chunk,
            BLOCK_N=FLAT, **self.flat_options,
        )  # fmt: skip
        return out.sum((0, 1))

    def combine(self, sums: Tensor, lengths: Tensor) -> Tensor:
        """(plain less log(1 - eps), log_n, share), [3, batch, heads, tokens], from what the splits found."""
        _, splits, batch, heads, tokens = sums.shape
        out = sums.new_empty(3, batch, heads, tokens)
        log_share = math.log2(1.0 - self.smoothing) if self.smoothing < 1.0 else -math.inf
        count = batch * heads * tokens
        vector_kernels.combine[(triton.cdiv(count, 256),)](
            sums, lengths, *out, splits, count, heads * tokens, self.smoothing, log_share, BLOCK=256
        )
        return out


FLAT = 64
"""Entries, or tokens, in a tile of the kernels without a matrix product."""


def row_facts(lengths: Sequence[int], smoothing: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """(lengths, floor eps / length) of the rows on the device, filled there: a copy from the host would wait for the device."""

    def column(numbers: Iterable[float], dtype: torch.dtype) -> Tensor:
        return torch.cat([torch.full((1,), number, dtype=dtype, device=device) for number in numbers])

    floors = (smoothing / max(length, 1) for length in lengths)
    return column(lengths, torch.int32), column(floors, torch.float32)


def _processors(tensor: Tensor) -> int:
    if not tensor.is_cuda:
        return 1
    return int(torch.cuda.get_device_properties(tensor.device).multi_processor_count)


class _FusedRead(torch.autograd.Function):
    """queries [batch, heads, tokens, head_dim] in the keys' dtype, units [heads, head_dim] in float32."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, units: Tensor, call: Call) -> Tensor:
        batch, heads, tokens, head_dim = queries.shape
        lengths, floor = row_facts(call.lengths, call.smoothing, queries.device)
        turn = call.turn(queries, units)
        along, ends = call.along(units, lengths)

        launch = call.launches.normalisers.for_prompt(tokens)
        grid, chunk = call.grid(launch, queries)
        sums = queries.new_empty(3, grid[2], batch, heads, tokens, dtype=torch.float32)
        kernels.normalisers[grid](
            queries, call.keys, turn, along, ends, lengths, *sums,
            *queries.stride()[:3], *call.keys.stride()[:3], *call.scalars(queries, chunk),
            **call.options(queries, launch),
        )  # fmt: skip
        plain, log_n, share = call.combine(sums, lengths)

        launch = call.launches.read.for_prompt(tokens)
        grid, chunk = call.grid(launch, queries)
        kind = queries.dtype if grid[2] == 1 else torch.float32
        out = queries.new_empty(grid[2], batch, heads, tokens, head_dim, dtype=kind)
        kernels.read[grid](
            queries, call.keys, call.values, turn, along, plain, log_n, floor, lengths, call.order_argument, out,
            *queries.stride()[:3], *call.bank_strides, *call.scalars(queries, chunk),
            ORDERED=call.order is not None, DIFFERENTIAL=call.variant == "differential",
            EXACT=queries.dtype == torch.float32, **call.options(queries, launch),
        )  # fmt: skip
        ctx.save_for_backward(queries, units, turn, along, plain, log_n, share, floor, lengths)
        ctx.call = call
        return out[0] if grid[2] == 1 else out.sum(0).to(queries.dtype)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        queries, units, turn, along, plain, log_n, share, floor, lengths = ctx.saved_tensors
        call: Call = ctx.call
        batch, heads, tokens, head_dim = queries.shape
        g = outputs[0].to(queries.dtype).contiguous()
        launch = call.launches.backward.for_prompt(tokens)
        grid, chunk = call.grid(launch, queries)
        tail = (
            *queries.stride()[:3], *g.stride()[:3], *call.bank_strides, *call.scalars(queries, chunk),
        )  # fmt: skip
        options = {**call.options(queries, launch), "ORDERED": call.order is not None}
        bank = (call.keys, call.values)
        common = (lengths, call.order_argument)

        sums = queries.new_empty(3, grid[2], batch, heads, tokens, dtype=torch.float32)
        gradient_kernels.means[grid](
            queries, g, *bank, turn, along, plain, log_n, floor, *common, *sums, *tail, **options
        )  # fmt: skip
        mean, tilted, straight = sums.sum(1)
        retained = 1.0 - call.smoothing
        level = tilted - retained * mean * share
        if call.variant == "differential":
            level = level - straight
        level = level / retained if retained > 0.0 else torch.zeros_like(level)

        dq = queries.new_empty(grid[2], batch, heads, tokens, head_dim, dtype=torch.float32)
        d_turn = queries.new_empty(grid[2], batch, heads, tokens, dtype=torch.float32)
        d_along = torch.zeros_like(along)
        gradient_kernels.gradients[grid](
            queries, g, *bank, turn, along, plain, log_n, mean, level, floor, *common, dq, d_turn, d_along, *tail,
            DIFFERENTIAL=call.variant == "differential", **options,
        )  # fmt: skip
        # e = -2 (u.q) (u.k) / sqrt(d): the gradient reaches q and u through the turn, u also through the entries.
        turned = (d_turn.sum(0) * -2.0)[..., None]
        d_queries = (dq.sum(0) + turned * units[:, None]) * head_dim**-0.5
        d_units = (turned * queries.float()).sum((0, 2)) * head_dim**-0.5 + call.spread(d_along, lengths) / LOG2E
        return d_queries.to(queries.dtype), d_units, None


def read(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    normals: Tensor,
    lengths: list[int],
    *,
    smoothing: float,
    variant: Readout,
    value_order: Tensor | None,
    launches: Launches | None = None,
) -> Tensor:
    """The `triton` backend of `differential_read`. Raises ValueError for what the kernels do not take."""
    reason = unsupported(queries)
    if reason is not None:
        raise ValueError(f"backend 'triton' {reason}")
    if launches is None:
        launches = choose_launches(queries.shape[-1], queries.element_size(), shared_memory(queries))
    if max(lengths) == 0:
        return torch.zeros_like(queries)
    bank = max(lengths)
    keys, values = (channels_last(tensor[:, :, :bank].detach()) for tensor in (keys, values))
    call = Call(
        keys,
        values,
        lengths,
        None if value_order is None else value_order[:, :, :bank].contiguous(),
        smoothing,
        variant,
        launches,
    )
    units = unit_normals(normals, queries.dtype).float()
    return _FusedRead.apply(channels_last(queries), units, call)


def unsupported(queries: Tensor) -> str | None:
    """Return why the kernels cannot read for these queries, or None where they can."""
    head_dim = queries.shape[-1]
    if queries.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"does not take {queries.dtype}"
    if head_dim < 16 or head_dim & (head_dim - 1):
        return f"takes head dims that are a power of two from 16 on, not {head_dim}"
    if not queries.is_cuda and queries.dtype == torch.bfloat16:
        return "takes bfloat16 on a CUDA device only: its interpreter multiplies none"
    if not queries.is_cuda and not triton.knobs.runtime.interpret:
        return f"needs a CUDA device, not {queries.device.type} (or TRITON_INTERPRET=1, its slow interpreter)"
    return None


def shared_memory(queries: Tensor) -> int:
    """Return the bytes of shared memory that a program may take on the device of these queries."""
    return _shared_memory(queries.device.index or 0) if queries.is_cuda else 1 << 20


@functools.cache
def _shared_memory(index: int) -> int:
    """Of GPU `index`. Kept, since the driver is slow to tell."""
    return int(triton.runtime.driver.active.utils.get_device_properties(index)["max_shared_mem"])


def channels_last(tensor: Tensor) -> Tensor:
    """Return the tensor, or a copy if its last dimension is not that of consecutive numbers."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
