"""The read in Triton: launching the kernels, and autograd around them. Imports triton, so it is imported only when used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from stair.method.reads import gradient_kernels, kernels
from stair.method.reads.naive import Variant
from stair.method.reflection import unit_normals

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


# In order of preference, for head dims up to 128 and beyond: (tokens, entries, warps, stages). The first of each are the
# largest that compile for sm_90 without spilling a register; the others are for devices with less shared memory.
_SMALLER = ((64, 32, 8, 2), (64, 32, 4, 1), (32, 32, 4, 1), (16, 16, 4, 1))
CANDIDATES: dict[str, tuple[tuple[tuple[int, int, int, int], ...], ...]] = {
    "normalisers": (((128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2)), ((128, 32, 8, 2), (64, 64, 8, 2))),
    "read": (((128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 8, 2)), ((128, 64, 8, 2), (64, 64, 8, 2))),
    "backward": (((128, 64, 8, 2), (64, 64, 8, 2)), ((128, 32, 8, 2), (64, 32, 8, 2))),
}
# How many tiles of tokens stay in shared memory, and how many tiles of entries each stage brings in.
_OPERANDS = {"normalisers": (1, 1), "read": (1, 2), "backward": (2, 2)}


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
class Problem:
    """What every pass needs: constants of one call. Shapes as in kernels.py."""

    keys: Tensor
    values: Tensor
    lengths: list[int]
    order: Tensor | None
    smoothing: float
    variant: Variant
    launches: Launches

    def grid(self, launch: Launch, queries: Tensor) -> tuple[tuple[int, int, int], int]:
        """(programs, entries in a split) of a pass."""
        batch, heads, tokens, _ = queries.shape
        tiles = triton.cdiv(tokens, launch.tokens)
        blocks = triton.cdiv(self.keys.shape[2], launch.entries)
        splits = launch.splits
        if splits is None:
            processors = 1
            if queries.is_cuda:
                processors = torch.cuda.get_device_properties(queries.device).multi_processor_count
            splits = triton.cdiv(2 * processors, tiles * batch * heads)
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

    def turn(self, queries: Tensor, units: Tensor) -> Tensor:
        """e = turn x along: -2 u.q of every head and token, with the scale, [batch, heads, tokens] in float32."""
        return (queries.float() * units[:, None]).sum(-1) * (-2.0 * queries.shape[-1] ** -0.5 * LOG2E)

    def along(self, units: Tensor) -> Tensor:
        """u.k of every head and entry, [batch, heads, bank] in float32; zero past a row's length."""
        batch, kv_heads, bank, head_dim = self.keys.shape
        grouped = units.view(kv_heads, -1, head_dim)
        out = units.new_zeros(batch, kv_heads, grouped.shape[1], bank)
        for row, span in self.stretches():
            out[row, ..., span] = grouped @ self.keys[row, :, span].float().mT
        return out.view(batch, -1, bank)

    def spread(self, d_along: Tensor) -> Tensor:
        """The gradient [heads, head_dim] that reaches the units through `along`."""
        batch, kv_heads, bank, head_dim = self.keys.shape
        grouped = d_along.view(batch, kv_heads, -1, bank)
        total = grouped.new_zeros(kv_heads, grouped.shape[2], head_dim)
        for row, span in self.stretches():
            total += grouped[row, ..., span] @ self.keys[row, :, span].float()
        return total.view(-1, head_dim)

    def stretches(self) -> Iterator[tuple[int, slice]]:
        """(row, span): each row's entries, some at a time, so that no float32 copy of the bank is made."""
        for row, length in enumerate(self.lengths):
            for start in range(0, length, 16384):
                yield row, slice(start, min(start + 16384, length))


class _FusedRead(torch.autograd.Function):
    """queries [batch, heads, tokens, head_dim] in the keys' dtype, units [heads, head_dim] in float32."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, units: Tensor, problem: Problem) -> Tensor:
        batch, heads, tokens, head_dim = queries.shape
        bank = problem.keys.shape[2]
        lengths = torch.tensor(problem.lengths, dtype=torch.int32, device=queries.device)
        turn = problem.turn(queries, units)
        along = problem.along(units)
        outside = torch.arange(bank, device=along.device) >= lengths[:, None, None]
        low = along.masked_fill(outside, math.inf).amin(-1)
        high = along.masked_fill(outside, -math.inf).amax(-1)

        launch = problem.launches.normalisers.for_prompt(tokens)
        grid, chunk = problem.grid(launch, queries)
        sums = queries.new_empty(3, grid[2], batch, heads, tokens, dtype=torch.float32)
        kernels.normalisers[grid](
            queries, problem.keys, turn, along, low, high, lengths, *sums,
            *queries.stride()[:3], *problem.keys.stride()[:3], *problem.scalars(queries, chunk),
            **problem.options(queries, launch),
        )  # fmt: skip
        plain, shifted, change = torch.logsumexp(sums / LOG2E, dim=1) * LOG2E
        smoothing = problem.smoothing
        floor = smoothing / lengths.clamp_min(1).float()
        log_share = math.log2(1.0 - smoothing) if smoothing < 1.0 else -math.inf
        log_n = torch.logaddexp2(log_share + shifted - plain, floor.log2()[:, None, None] + change)
        share = (shifted - plain - log_n).exp2()
        plain = plain - log_share

        launch = problem.launches.read.for_prompt(tokens)
        grid, chunk = problem.grid(launch, queries)
        kind = queries.dtype if grid[2] == 1 else torch.float32
        out = queries.new_empty(grid[2], batch, heads, tokens, head_dim, dtype=kind)
        kernels.read[grid](
            queries, problem.keys, problem.values, turn, along, plain, log_n, floor, lengths, problem.order_argument, out,
            *queries.stride()[:3], *problem.bank_strides, *problem.scalars(queries, chunk),
            ORDERED=problem.order is not None, DIFFERENTIAL=problem.variant == "differential",
            EXACT=queries.dtype == torch.float32, **problem.options(queries, launch),
        )  # fmt: skip
        ctx.save_for_backward(queries, units, turn, along, plain, log_n, share, floor, lengths)
        ctx.problem = problem
        return out[0] if grid[2] == 1 else out.sum(0).to(queries.dtype)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        queries, units, turn, along, plain, log_n, share, floor, lengths = ctx.saved_tensors
        problem: Problem = ctx.problem
        batch, heads, tokens, head_dim = queries.shape
        g = outputs[0].to(queries.dtype).contiguous()
        launch = problem.launches.backward.for_prompt(tokens)
        grid, chunk = problem.grid(launch, queries)
        tail = (
            *queries.stride()[:3], *g.stride()[:3], *problem.bank_strides, *problem.scalars(queries, chunk),
        )  # fmt: skip
        options = {**problem.options(queries, launch), "ORDERED": problem.order is not None}
        bank = (problem.keys, problem.values)
        common = (lengths, problem.order_argument)

        sums = queries.new_empty(3, grid[2], batch, heads, tokens, dtype=torch.float32)
        gradient_kernels.means[grid](
            queries, g, *bank, turn, along, plain, log_n, floor, *common, *sums, *tail, **options
        )  # fmt: skip
        mean, tilted, straight = sums.sum(1)
        retained = 1.0 - problem.smoothing
        level = tilted - retained * mean * share
        if problem.variant == "differential":
            level = level - straight
        level = level / retained if retained > 0.0 else torch.zeros_like(level)

        dq = queries.new_empty(grid[2], batch, heads, tokens, head_dim, dtype=torch.float32)
        d_turn = queries.new_empty(grid[2], batch, heads, tokens, dtype=torch.float32)
        d_along = torch.zeros_like(along)
        gradient_kernels.gradients[grid](
            queries, g, *bank, turn, along, plain, log_n, mean, level, floor, *common, dq, d_turn, d_along, *tail,
            DIFFERENTIAL=problem.variant == "differential", **options,
        )  # fmt: skip
        # e = -2 (u.q) (u.k) / sqrt(d): the gradient reaches q and u through the turn, u also through the entries.
        turned = (d_turn.sum(0) * -2.0)[..., None]
        d_queries = (dq.sum(0) + turned * units[:, None]) * head_dim**-0.5
        d_units = (turned * queries.float()).sum((0, 2)) * head_dim**-0.5 + problem.spread(d_along) / LOG2E
        return d_queries.to(queries.dtype), d_units, None


def read(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    normals: Tensor,
    lengths: list[int],
    *,
    smoothing: float,
    variant: Variant,
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
    keys, values = (_channels_last(tensor[:, :, :bank].detach()) for tensor in (keys, values))
    problem = Problem(
        keys,
        values,
        lengths,
        None if value_order is None else value_order[:, :, :bank].contiguous(),
        smoothing,
        variant,
        launches,
    )
    units = unit_normals(normals, queries.dtype).float()
    return _FusedRead.apply(_channels_last(queries), units, problem)


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
    if not queries.is_cuda:
        return 1 << 20
    return int(triton.runtime.driver.active.utils.get_device_properties(queries.device.index or 0)["max_shared_mem"])


def _channels_last(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
