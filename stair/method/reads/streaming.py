"""The read in PyTorch, streaming over the bank: exact, and its memory does not grow with tokens x bank.

With l_j = q.k_j / sqrt(d), e_j = c.k_j / sqrt(d) and s = softmax(l), Eqs. 6 and 7 read

    pi_ref = (1 - eps) s + eps / M,    pi_R = pi_ref exp(e) / N,    N = sum_j pi_ref_j exp(e_j),

so that two numbers a token, logsumexp(l) and log N, hold all that a pass over the bank has to find out, and a second pass
sums the values under the difference weights pi_ref (exp(e - log N) - 1).
Because c = -2 (u.q) u, e_j = a_t w_j with one number a token and one a bank entry: no second product with the keys.

The backward recomputes the weights block by block. With h_j = g.v_j for the output's gradient g, rho = exp(e - log N) and
bars for the sums under pi_R, the gradients of the logits are

    de_j = pi_R_j (h_j - hbar),    dl_j = (1 - eps) s_j (y_j - sum_i s_i y_i),    y_j = rho_j (h_j - hbar) - h_j,

and y_j without its last term where the reflected read alone is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from stair.core import Readout
from stair.method.reads.naive import unit_normals


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
CPU_TILES = Tiles(rows=512, entries=256, kept=168 << 20)
GPU_TILES = Tiles(rows=8192, entries=4096)
LEAST_ROWS = 128
# A kept power is at most this, and a factor to it is taken for at least that: what the latter adds is below 2 ** -80, nothing
# beside smoothing / bank, and neither leaves float32's range.
GREATEST_SUM = 2.0**40
LEAST_FACTOR = 2.0**-120


@dataclass
class _Head:
    """One K/V head of one row; `queries` [groups, tokens, d], scaled, and `units` are in the working dtype."""

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
        # Products of even heights are quicker than of a few more rows.
        rows = min(self.tiles.rows, affordable - affordable % LEAST_ROWS) if keeps else self.tiles.rows
        self.step = min(max(1, rows // groups), max(1, tokens))
        tile = groups * self.step * width
        self.work = self.queries.new_empty(2, tile)
        self.kept = self.queries.new_empty(blocks, tile) if keeps else None
        self.levels: dict[int, Tensor] = {}
        self.log_share = math.log1p(-self.smoothing) if self.smoothing < 1.0 else -math.inf
        self.floor = self.smoothing / self.bank
        self.log_floor = math.log(self.floor)
        # A product takes a difference along for nothing where the subtrahend is one more column against a column of ones.
        self.wide_keys = self.keys.new_ones(self.bank, self.keys.shape[1] + 1, dtype=self.queries.dtype)
        self.wide_keys[:, :-1] = self.keys
        # e_j = turn_t along_j, with the scale inside turn.
        self.turn = -2.0 * torch.einsum("gtd,gd->gt", self.queries, self.units)[..., None]
        self.along = torch.cat([self.units @ block.mT for _, block in self.key_blocks()], dim=-1)
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

    def side(self, tokens: slice, less: Tensor | None = None) -> Tensor:
        """The left factor of a tile's logits l with `less` [groups, tokens, 1] taken off: [groups x tokens, d + 1]."""
        queries = self.queries[:, tokens]
        last = torch.zeros_like(queries[..., :1]) if less is None else -less
        return torch.cat((queries, last), dim=-1).flatten(0, 1)

    def logits(self, side: Tensor, tokens: slice, span: slice) -> Tensor:
        """l of a tile, less what `side` takes off."""
        buffer = self.work[0] if self.kept is None else self.kept[span.start // self.tiles.entries]
        logit = self.tile(buffer, tokens, span)
        # One flat product is quicker than one for each head of the group.
        torch.mm(side, self.wide_keys[span].mT, out=logit.view(-1, logit.shape[-1]))
        return logit

    def turn_side(self, tokens: slice, less: Tensor) -> Tensor:
        """The left factor of a tile's e with `less` [groups, tokens, 1] taken off: [groups, tokens, 2]."""
        return torch.cat((self.turn[:, tokens], -less), dim=-1)

    def extra(self, side: Tensor, tokens: slice, span: slice) -> Tensor:
        """e of a tile, less what `side` takes off."""
        return torch.bmm(side, self.wide_along[..., span], out=self.tile(self.work[1], tokens, span))

    def normalisers(self, tokens: slice) -> tuple[Tensor, Tensor, Tensor]:
        """First pass: (logsumexp(l), log N, sum_j s_j rho_j) of every token of the tile, each [groups, tokens, 1]."""
        turn = self.turn[:, tokens]
        lowest, highest = self.along.amin(-1)[:, None, None], self.along.amax(-1)[:, None, None]
        peak = torch.where(turn > 0, turn * highest, turn * lowest)  # max_j e_j, known beforehand
        # Log N is a small difference of large logarithms, so sums and logarithms are in float64: a few numbers a token cost
        # nothing. Sums of exp(l), of exp(l + e) and of exp(e), in units of exp(level), exp(level + peak) and exp(peak).
        plain, shifted, change = torch.zeros(3, *turn.shape, dtype=torch.float64, device=turn.device)
        turned = self.turn_side(tokens, peak)
        level, side = torch.full_like(turn, -math.inf), None
        for block, span in enumerate(self.spans()):
            weight, total, new, side = self.powers(tokens, span, level, side)
            if new is not level:
                decay = (level - new).double().exp_()
                plain *= decay
                shifted *= decay
                level = new
            if self.kept is not None:
                self.levels[block] = level
            plain += total
            moved = self.extra(turned, tokens, span).exp_()
            change += moved.sum(-1, keepdim=True)
            # The product stands for exp(l + e). What it loses to underflow is at most bank * 2 ** -126 in units of exp(peak), and
            # N is at least smoothing / bank in those units: nothing that float32 could show.
            shifted += moved.mul_(weight).sum(-1, keepdim=True)
        mean = shifted.log_() - plain.log_() + peak  # log sum_j s_j exp(e_j)
        log_n = torch.logaddexp(self.log_share + mean, self.log_floor + peak + change.log_())
        return (plain + level).to(turn.dtype), log_n.to(turn.dtype), (mean - log_n).exp_().to(turn.dtype)

    def powers(
        self, tokens: slice, span: slice, level: Tensor, side: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """(exp(l - level), its sums, level, side) of a tile; the level is an earlier tile's greatest logit, while that serves.

        Weights beyond one lose no precision, so a later tile needs no maximum of its own until they grow out of bounds. `side` is
        the level's left factor, None before there is one.
        """
        if level.is_cpu and (side is not None or span.start > 0):
            side = self.side(tokens, level) if side is None else side
            weight = self.logits(side, tokens, span).exp_()
            total = weight.sum(-1, keepdim=True)
            if float(total.amax()) < GREATEST_SUM:
                return weight, total, level, side
        logit = self.logits(self.side(tokens), tokens, span)
        level = torch.maximum(level, logit.amax(-1, keepdim=True))
        weight = logit.sub_(level).exp_()
        return weight, weight.sum(-1, keepdim=True), level, None

    def weights(self, sides: tuple[Tensor, Tensor], tokens: slice, span: slice) -> tuple[Tensor, Tensor]:
        """(pi_ref, rho) of a tile."""
        reference = self.logits(sides[0], tokens, span).exp_().add_(self.floor)
        return reference, self.extra(sides[1], tokens, span).exp_()

    def sides(self, tokens: slice, plain: Tensor, log_n: Tensor) -> tuple[Tensor, Tensor]:
        """The left factors of log((1 - eps) s) and of log rho."""
        return self.side(tokens, plain - self.log_share), self.turn_side(tokens, log_n)

    def scaled_weights(
        self, sides: tuple[Tensor, Tensor], tokens: slice, span: slice, plain: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """(pi_ref / f, rho, f) of a tile that `normalisers` went through last; f [groups, tokens, 1], or None for one.

        A power that was kept needs no factor where the sum over the values takes it.
        """
        if self.kept is None:
            return *self.weights(sides, tokens, span), None
        block = span.start // self.tiles.entries
        # No level is above the greatest logit, so this factor is at most one.
        factor = (self.levels[block] - plain + self.log_share).exp_().clamp_(min=LEAST_FACTOR)
        kept = self.tile(self.kept[block], tokens, span)
        reference = torch.add(kept, self.floor / factor, out=self.tile(self.work[0], tokens, span))
        return reference, self.extra(sides[1], tokens, span).exp_(), factor


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
        variant: Readout,
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
                sides = head.sides(tokens, plain, log_n)
                total = out[heads, tokens]
                for span in head.spans():
                    weight, rho, factor = head.scaled_weights(sides, tokens, span, plain)
                    if variant == "differential":
                        # The negative of pi_ref (rho - 1) in one go. What the difference loses is less than log N has lost.
                        torch.addcmul(weight, weight, rho, value=-1.0, out=weight)
                    else:
                        weight.mul_(rho)
                    read = (weight.flatten(0, 1) @ head.value_block(span)).view_as(total)
                    if factor is not None:
                        read.mul_(factor)
                    total.add_(read, alpha=-1.0 if variant == "differential" else 1.0)
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
                sides = head.sides(tokens, plain, log_n)
                mean, level = _means(head, sides, tokens, gradient, share, variant)
                for span, block in head.key_blocks():
                    reference, ratio = head.weights(sides, tokens, span)
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
            d_units[heads] += -2.0 * (d_turn * head.queries).sum(1)
            for span, block in head.key_blocks():
                d_units[heads] += d_along[:, span] @ block
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
    scaled = queries * queries.shape[-1] ** -0.5
    chosen = None if order is None else order[kv_head]
    return _Head(scaled, units, keys[kv_head], values[kv_head], chosen, smoothing, tiles)


def _means(
    head: _Head, sides: tuple[Tensor, Tensor], tokens: slice, g: Tensor, share: Tensor, variant: Readout
) -> tuple[Tensor, Tensor]:
    """(hbar, sum_j s_j y_j) of every token of the tile: what the gradients of the logits are measured from."""
    mean, tilted, straight = torch.zeros_like(share), torch.zeros_like(share), torch.zeros_like(share)
    for span in head.spans():
        reference, ratio = head.weights(sides, tokens, span)
        h = g @ head.value_block(span).mT
        ratio = ratio.mul_(h)
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
    variant: Readout,
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
