"""The read in PyTorch, streaming over the bank: exact, and its memory does not grow with tokens x bank.

With l_j = q.k_j / sqrt(d), e_j = c.k_j / sqrt(d) and s = softmax(l), Eqs. 6 and 7 read

    pi_ref = (1 - eps) s + eps / M,    pi_R = pi_ref exp(e) / N,    N = sum_j pi_ref_j exp(e_j),

so that two numbers a token, logsumexp(l) and log N, hold all that a pass over the bank has to find out, and a second pass
sums the values under the difference weights pi_ref (exp(e - log N) - 1).
Because c = -2 (u.q) u, e_j = a_t w_j with one number a token and one a bank entry: no second product with the keys.

The backward recomputes the weights block by block. With h_j = g.v_j for the output's gradient g, rho = exp(e - log N) and
bars for the sums under pi_R, the gradients of the logits are

    de_j = pi_R_j (h_j - hbar),    dl_j = (1 - eps) s_j (y_j - sum_i s_i y_i),    y_j = rho_j (h_j - hbar) - h_j,

and y_j without its last term where the reflected read alone is asked for. Logarithms and exponentials are to base 2, which
machines have; the factor is part of the queries' scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from stair.method.reads.naive import Variant
from stair.method.reflection import unit_normals


@dataclass(frozen=True)
class Tiles:
    """How much is in flight at once: `rows` query rows (tokens x heads of a group) and `entries` of the bank.

    Where that takes no more than `kept` bytes, the first pass keeps the powers of its rows for the second; `rows` may fall to
    `LEAST_ROWS` for it.
    """

    rows: int
    entries: int
    kept: int = 0


# A tile of logits and its companion have to stay in a core's second-level cache; on a GPU launches should be few. A core reads
# a logit from memory in a tenth of the time that it takes to compute it again.
CPU_TILES = Tiles(rows=512, entries=512, kept=96 << 20)
GPU_TILES = Tiles(rows=8192, entries=4096)
LEAST_ROWS = 128
# A kept power up to here times a factor that underflows is below 2 ** -86: nothing beside smoothing / bank.
GREATEST_SUM = 2.0**40
LN2 = math.log(2.0)


@dataclass
class _Head:
    """One K/V head of one row; `queries` [groups, tokens, d], scaled for base 2, and `units` are in the working dtype."""

    queries: Tensor
    units: Tensor
    keys: Tensor  # [bank, d], the caller's dtype
    values: Tensor
    order: Tensor | None  # [bank]: entry j carries value order[j]
    smoothing: float
    tiles: Tiles

    def __post_init__(self) -> None:
        self.bank = self.keys.shape[0]
        # Tiles are allocated once: a fresh allocation for each would cost more in page faults than the arithmetic in it.
        groups, tokens, _ = self.queries.shape
        width = min(self.tiles.entries, self.bank)
        blocks = -(-self.bank // width)
        affordable = self.tiles.kept // (blocks * width * self.queries.element_size())
        keeps = affordable >= LEAST_ROWS
        rows = min(self.tiles.rows, affordable) if keeps else self.tiles.rows
        self.step = min(max(1, rows // groups), max(1, tokens))
        tile = groups * self.step * width
        self.work = self.queries.new_empty(2, tile)
        self.kept = self.queries.new_empty(blocks, tile) if keeps else None
        self.levels: dict[int, Tensor] = {}
        self.log_share = math.log2(1.0 - self.smoothing) if self.smoothing < 1.0 else -math.inf
        self.floor = self.smoothing / self.bank
        self.log_floor = math.log2(self.floor)
        # A product takes a difference along for nothing where the subtrahend is one more column against a column of ones.
        self.wide_keys = self.keys.new_ones(self.bank, self.keys.shape[1] + 1, dtype=self.queries.dtype)
        self.wide_keys[:, :-1] = self.keys
        # e_j = turn_t along_j, with the scale inside turn.
        self.turn = -2.0 * torch.einsum("gtd,gd->gt", self.queries, self.units)[..., None]
        self.along = torch.cat([self.units @ block.mT for _, block in self.key_blocks()], dim=-1)
        self.wide_queries = torch.nn.functional.pad(self.queries, (0, 1))
        self.wide_along = torch.stack((self.along, torch.ones_like(self.along)), dim=1)

    def spans(self) -> Iterator[slice]:
        for start in range(0, self.bank, self.tiles.entries):
            yield slice(start, min(start + self.tiles.entries, self.bank))

    def key_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        for span in self.spans():
            yield span, self.wide_keys[span, :-1]

    def value_block(self, span: slice) -> Tensor:
        block = self.values[span] if self.order is None else self.values.index_select(0, self.order[span])
        return block.to(self.queries.dtype)

    def token_blocks(self) -> Iterator[slice]:
        for start in range(0, self.queries.shape[1], self.step):
            yield slice(start, min(start + self.step, self.queries.shape[1]))

    def tile(self, buffer: Tensor, tokens: slice, span: slice) -> Tensor:
        """A buffer's memory as [groups, tokens, entries] of a tile."""
        shape = (self.queries.shape[0], tokens.stop - tokens.start, span.stop - span.start)
        return buffer[: shape[0] * shape[1] * shape[2]].view(shape)

    def logits(self, tokens: slice, span: slice, less: Tensor | None = None) -> Tensor:
        """l of a tile, with `less` [groups, tokens, 1] taken off."""
        buffer = self.work[0] if self.kept is None else self.kept[span.start // self.tiles.entries]
        logit = self.tile(buffer, tokens, span)
        queries = self.wide_queries[:, tokens]
        queries[..., -1:] = 0.0 if less is None else -less
        block = self.wide_keys[span]
        # One flat product is quicker than one for each head of the group.
        torch.mm(queries.reshape(-1, queries.shape[-1]), block.mT, out=logit.view(-1, logit.shape[-1]))
        return logit

    def extra(self, tokens: slice, span: slice, less: Tensor) -> Tensor:
        """e of a tile, with `less` [groups, tokens, 1] taken off."""
        sides = torch.cat((self.turn[:, tokens], -less), dim=-1)
        return torch.bmm(sides, self.wide_along[..., span], out=self.tile(self.work[1], tokens, span))

    def normalisers(self, tokens: slice) -> tuple[Tensor, Tensor, Tensor]:
        """First pass: (logsumexp(l), log N, sum_j s_j rho_j) of every token of the tile, each [groups, tokens, 1]."""
        turn = self.turn[:, tokens]
        lowest, highest = self.along.amin(-1)[:, None, None], self.along.amax(-1)[:, None, None]
        peak = torch.where(turn > 0, turn * highest, turn * lowest)  # max_j e_j, known beforehand
        # Log N is a small difference of large logarithms, so those are kept in float64: one number a token costs nothing.
        plain = torch.full_like(turn, -math.inf, dtype=torch.float64)
        shifted = torch.full_like(plain, -math.inf)
        change = torch.zeros_like(plain)
        level: Tensor | None = None
        for block, span in enumerate(self.spans()):
            weight, total, level = self.powers(tokens, span, level)
            if self.kept is not None:
                self.levels[block] = level
            moved = self.extra(tokens, span, peak).exp2_()
            plain = torch.logaddexp2(plain, level + total.double().log2())
            change += moved.sum(-1, keepdim=True)
            # The product stands for exp(l + e). What it loses to underflow is at most bank * 2 ** -126 in units of exp(peak), and
            # N is at least smoothing / bank in those units: nothing that float32 could show.
            both = moved.mul_(weight).sum(-1, keepdim=True).double().log2_()
            shifted = torch.logaddexp2(shifted, both + level + peak)
        mean = shifted - plain  # log sum_j s_j exp(e_j)
        log_n = torch.logaddexp2(self.log_share + mean, self.log_floor + peak + change.log2())
        return plain.to(turn.dtype), log_n.to(turn.dtype), (mean - log_n).exp2().to(turn.dtype)

    def powers(self, tokens: slice, span: slice, level: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(2 ** (l - level), its sums, level) of a tile; the level is the greatest logit of an earlier tile, while that serves.

        Weights beyond one lose no precision, so a later tile needs no maximum of its own until they grow out of bounds.
        """
        if level is not None and level.is_cpu:
            weight = self.logits(tokens, span, level).exp2_()
            total = weight.sum(-1, keepdim=True)
            if bool((total < GREATEST_SUM).all()):
                return weight, total, level
        logit = self.logits(tokens, span)
        top = logit.amax(-1, keepdim=True)
        level = top if level is None else torch.maximum(level, top)
        weight = logit.sub_(level).exp2_()
        return weight, weight.sum(-1, keepdim=True), level

    def weights(self, tokens: slice, span: slice, plain: Tensor, log_n: Tensor) -> tuple[Tensor, Tensor]:
        """(pi_ref, log rho) of a tile; with kept powers, of a tile that `normalisers` went through last."""
        less = plain - self.log_share
        if self.kept is None:
            reference = self.logits(tokens, span, less).exp2_()
        else:
            block = span.start // self.tiles.entries
            kept = self.tile(self.kept[block], tokens, span)
            # No level is above the greatest logit, so this factor is at most one.
            factor = (self.levels[block] - less).exp2_()
            reference = torch.mul(kept, factor, out=self.tile(self.work[0], tokens, span))
        return reference.add_(self.floor), self.extra(tokens, span, log_n)


class _StreamingRead(torch.autograd.Function):
    """One row: queries [query_heads, tokens, d], units [query_heads, d] (working dtype), keys, values [kv_heads, bank, d]."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        units: Tensor,
        keys: Tensor,
        values: Tensor,
        order: Tensor | None,
        smoothing: float,
        variant: Variant,
        tiles: Tiles,
    ) -> Tensor:
        groups = queries.shape[0] // keys.shape[0]
        out = torch.zeros_like(queries)
        sums = queries.new_empty(3, *queries.shape[:2], 1)
        for kv_head in range(keys.shape[0]):
            heads = slice(kv_head * groups, (kv_head + 1) * groups)
            head = _head(queries[heads], units[heads], keys, values, order, kv_head, smoothing, tiles)
            for tokens in head.token_blocks():
                plain, log_n, share = head.normalisers(tokens)
                sums[:, heads, tokens] = torch.stack((plain, log_n, share))
                total = out[heads, tokens]
                for span in head.spans():
                    reference, ratio = head.weights(tokens, span, plain, log_n)
                    ratio.exp2_()
                    if variant == "differential":
                        # expm1 would cost five times as much, and what the subtraction loses is less than log N has lost.
                        ratio.sub_(1.0)
                    total += reference.mul_(ratio) @ head.value_block(span)
        ctx.save_for_backward(queries, units, keys, values, order, sums)
        ctx.settings = (smoothing, variant, tiles)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        queries, units, keys, values, order, sums = ctx.saved_tensors
        smoothing, variant, tiles = ctx.settings
        (g,) = gradients
        groups = queries.shape[0] // keys.shape[0]
        d_queries, d_units = torch.zeros_like(queries), torch.zeros_like(units)
        for kv_head in range(keys.shape[0]):
            heads = slice(kv_head * groups, (kv_head + 1) * groups)
            head = _head(queries[heads], units[heads], keys, values, order, kv_head, smoothing, replace(tiles, kept=0))
            d_along = torch.zeros_like(head.along)
            d_turn = torch.zeros_like(head.turn)
            for tokens in head.token_blocks():
                plain, log_n, share = sums[:, heads, tokens]
                gradient = g[heads, tokens]
                mean, level = _means(head, tokens, gradient, plain, log_n, share, variant)
                for span, block in head.key_blocks():
                    reference, ratio = head.weights(tokens, span, plain, log_n)
                    ratio = ratio.exp2_()
                    h = gradient @ head.value_block(span).mT
                    y = (h - mean).mul_(ratio)
                    d_extra = reference * y
                    if variant == "differential":
                        y -= h
                    d_logit = reference.sub_(head.floor).mul_(y.sub_(level))
                    d_queries[heads, tokens] += d_logit @ block
                    d_turn[:, tokens] += d_extra @ head.along[:, span, None]
                    d_along[:, span] += (head.turn[:, tokens].mT @ d_extra)[:, 0]
            # e = -2 (u.q) (u.k): the gradient reaches q and u through the turn, u also through the entries.
            d_queries[heads] += -2.0 * d_turn * head.units[:, None]
            d_units[heads] += -2.0 * (d_turn * head.queries).sum(1) * LN2
            for span, block in head.key_blocks():
                d_units[heads] += d_along[:, span] @ block * LN2
        return d_queries * queries.shape[-1] ** -0.5, d_units, None, None, None, None, None, None


def _head(
    queries: Tensor,
    units: Tensor,
    keys: Tensor,
    values: Tensor,
    order: Tensor | None,
    kv_head: int,
    smoothing: float,
    tiles: Tiles,
) -> _Head:
    scaled = queries * (queries.shape[-1] ** -0.5 / LN2)
    chosen = None if order is None else order[kv_head]
    return _Head(scaled, units, keys[kv_head], values[kv_head], chosen, smoothing, tiles)


def _means(
    head: _Head, tokens: slice, g: Tensor, plain: Tensor, log_n: Tensor, share: Tensor, variant: Variant
) -> tuple[Tensor, Tensor]:
    """(hbar, sum_j s_j y_j) of every token of the tile: what the gradients of the logits are measured from."""
    mean, tilted, straight = torch.zeros_like(plain), torch.zeros_like(plain), torch.zeros_like(plain)
    for span in head.spans():
        reference, ratio = head.weights(tokens, span, plain, log_n)
        h = g @ head.value_block(span).mT
        ratio = ratio.exp2_().mul_(h)
        mean += (reference * ratio).sum(-1, keepdim=True)
        reference.sub_(head.floor)  # now (1 - eps) s
        tilted += (reference * ratio).sum(-1, keepdim=True)
        straight += reference.mul_(h).sum(-1, keepdim=True)
    retained = 1.0 - head.smoothing
    level = tilted - retained * mean * share
    if variant == "differential":
        level = level - straight
    return mean, level / retained if retained > 0.0 else torch.zeros_like(level)


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
    tiles: Tiles | None = None,
) -> Tensor:
    """The `torch` backend of `differential_read`. Rows are read one by one, so a row's bits do not depend on its batch."""
    working = torch.float64 if queries.dtype == torch.float64 else torch.float32
    units = unit_normals(normals, queries.dtype).to(working)
    tiles = tiles or (GPU_TILES if queries.is_cuda else CPU_TILES)
    rows = []
    for row, length in enumerate(lengths):
        if length == 0:
            rows.append(torch.zeros_like(queries[row]))
            continue
        order = None if value_order is None else value_order[row, :, :length]
        bank = (keys[row, :, :length].detach(), values[row, :, :length].detach())
        out = _StreamingRead.apply(queries[row].to(working), units, *bank, order, smoothing, variant, tiles)
        rows.append(out.to(queries.dtype))
    return rows[0][None] if len(rows) == 1 else torch.stack(rows)
