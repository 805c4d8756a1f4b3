"""What a historical read adds to a linear prediction of the next block's MLP response (appendix A.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stair.config.replay import Replay, ReplayAnalysis
from stair.models.architecture import Architecture
from stair.stages.replay.analysis.block_intervals import BlockResamples, block_interval
from stair.stages.replay.analysis.crossing import Crossing
from stair.stages.replay.analysis.decomposition import displacement
from stair.stages.replay.analysis.random_by_name import Ints, gaussian_projection, named_permutation, project
from stair.stages.replay.analysis.statistics_table import Statistic
from stair.stages.replay.measurement.categories import CATEGORIES

Floats = npt.NDArray[np.float64]
Measured = npt.NDArray[np.floating]

READS = ("assistant", "user", "template")
SHUFFLED: dict[str, Literal["histories", "problems"]] = {
    "assistant, shuffled across histories": "histories",
    "assistant, shuffled across problems": "problems",
}
"""The controls: what the assistant read is shuffled across."""
RESAMPLED = ("assistant", "user", "assistant, shuffled across histories")
"""The increments with an interval: the text gives or compares their numbers."""


def base_features(
    projection: Floats, inputs: Measured, references: Measured, lengths: Sequence[int], masses: Measured
) -> Floats:
    """f0 = [P u(x | no history), P (u(x | H) - u(x | no history)), log(1 + |H|), A_U, A_A, A_F] (Eq. 18).

    Args:
        projection: FP64 [width, hidden], which projects the reads too.
        inputs: [problems, histories, hidden] the block's pooled inputs u.
        references: [problems, hidden] the same without history.
        lengths: [histories] tokens of the whole prefix.
        masses: [problems, histories, 4] attention masses; the last one, the current turn's, is left out.

    Returns:
        FP64 [problems, histories, 2 width + 4]; 132 features at the paper's width of 64.
    """
    cells = inputs.shape[:2]
    own = project(projection, references)
    logs = np.log1p(np.asarray(lengths, np.float64))
    return np.concatenate(
        [
            np.broadcast_to(own[:, None], (*cells, own.shape[-1])),
            project(projection, displacement(inputs, references)),
            np.broadcast_to(logs[:, None], (*cells, 1)),
            masses[..., :3],
        ],
        axis=-1,
    )


def shuffled_reads(
    reads: Measured,
    across: Literal["histories", "problems"],
    problems: Sequence[str],
    histories: Sequence[str],
    *seed: str | int,
) -> Measured:
    """Reads [problems, histories, width] of one group, permuted across histories within each problem, or the reverse.

    Each problem, or history, has a permutation of its own, named by `seed`. `problems` and `histories` are distinct names in
    the order of the arrays.
    """
    if across == "histories":
        order = np.stack([named_permutation(histories, *seed, across, problem) for problem in problems])
    else:
        order = np.stack([named_permutation(problems, *seed, across, history) for history in histories], axis=1)
    return np.take_along_axis(reads, order[..., None], axis=1 if across == "histories" else 0)


class Moments(NamedTuple):
    """Sums over cells that ridge regression and its scores need."""

    counts: float
    """Cells."""
    features: Floats
    """[1 + features, 1 + features] products of [1, features]"""
    products: Floats
    """[1 + features, hidden] products of [1, features] and targets"""
    squares: float
    """Squared norms of targets."""


def moments(features: Floats, targets: Floats) -> Moments:
    """The moments of one group.

    Args:
        features: FP64 [problems, histories, features], the base features first.
        targets: FP64 [problems, histories, hidden] z(x | H) - z(x | no history) of the next block's MLP output.
    """
    x, y = features.reshape(-1, features.shape[-1]), targets.reshape(-1, targets.shape[-1])
    x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    return Moments(float(len(x)), x.T @ x, x.T @ y, float(np.vdot(y, y)))


def by_block(features: Floats, targets: Floats, resamples: BlockResamples) -> tuple[Floats, ...]:
    """The moments of each block's histories, as those of a group: arrays whose first axis are the blocks."""
    own = [resamples.places == place for place in range(resamples.count)]
    each = [moments(features[:, histories], targets[:, histories]) for histories in own]
    return tuple(np.stack(sums) for sums in zip(*each, strict=True))


def repeated(blocks: tuple[Floats, ...], times: Ints) -> Moments:
    """The moments of a resample, which has each block's cells several times or not at all."""
    counts, features, products, squares = (np.tensordot(times, sums, 1) for sums in blocks)
    return Moments(float(counts), features, products, float(squares))


def read_scores(fit: Moments, test: Moments, base: int) -> tuple[float, float]:
    """R^2 on the test group of the first `base` features, and of all: (TSS - SSE) / TSS. Their difference is Delta R^2.

    Ridge regression with features standardized by the fit group. The penalty is the number of
    its cells; the intercept is not penalized. Features that are constant in the fit group are ignored. TSS is about the test
    group's mean. Sums run over all outputs. Raises ValueError if the targets of the test group do not vary.
    """
    total = test.squares - float(np.vdot(test.products[0], test.products[0])) / test.counts
    if not total > 1e-12 * test.squares:
        raise ValueError("the test group's targets do not vary")
    widths = base, fit.features.shape[-1] - 1
    first, second = (1 - _squared_error(fit, test, width) / total for width in widths)
    return first, second


def _squared_error(fit: Moments, test: Moments, width: int) -> float:
    """The test group's SSE with the first `width` features.

    With features x standardized and targets y centered by the fit group, which has n cells, the slopes are
    (x'x + n I)^-1 x'y, and the SSE of the test group is |y|^2 - 2 <slopes, x'y> + <slopes, x'x slopes>.
    """
    cells, kept = fit.counts, slice(1, 1 + width)
    middle, level = fit.features[0, kept] / cells, fit.products[0] / cells
    gram, product = _about(fit, width, middle, level)
    spread = np.sqrt(np.maximum(np.diag(gram) / cells, 0))
    # What rounding leaves of a constant feature is no deviation. Differences of sums leave the root of an FP64 rounding, 1e-8.
    constant = spread <= 1e-7 * np.sqrt(np.diag(fit.features)[kept] / cells)
    inverse = np.where(constant, 0.0, 1 / np.where(constant, 1.0, spread))
    penalized = gram * np.outer(inverse, inverse) + cells * np.eye(width)
    slopes = inverse[:, None] * np.linalg.solve(penalized, inverse[:, None] * product)
    gram, product = _about(test, width, middle, level)
    squares = test.squares - 2 * np.vdot(test.products[0], level) + test.counts * np.vdot(level, level)
    return float(squares - 2 * np.vdot(slopes, product) + np.vdot(slopes, gram @ slopes))


def _about(group: Moments, width: int, middle: Floats, level: Floats) -> tuple[Floats, Floats]:
    """Products of features with features and with targets, relative to other points."""
    kept = slice(1, 1 + width)
    sums, targets, cells = group.features[0, kept], group.products[0], group.counts
    crossed = np.outer(sums, middle)
    gram = group.features[kept, kept] - crossed - crossed.T + cells * np.outer(middle, middle)
    product = group.products[kept] - np.outer(sums, level) - np.outer(middle, targets) + cells * np.outer(middle, level)
    return gram, product


@dataclass(frozen=True)
class LayerReads:
    """One group's cells at one measured layer."""

    crossing: Crossing
    layer: int
    place: int
    """The layer's place among those with reads."""
    masses_place: int
    """The layer's place among those with masses."""
    settings: ReplayAnalysis

    @cached_property
    def base(self) -> Floats:
        """[problems, histories, 2 width + 4]"""
        inputs, references = self.crossing.inputs(self.layer)
        masses = self.crossing.masses(self.masses_place)
        return base_features(self._projection(inputs.shape[-1]), inputs, references, self.crossing.lengths, masses)

    @cached_property
    def reads(self) -> Floats:
        """[problems, histories, categories, width] projected reads."""
        reads = self.crossing.reads(self.place)
        return project(self._projection(reads.shape[-1]), reads)

    @cached_property
    def targets(self) -> Floats:
        """[problems, histories, hidden]"""
        return self.crossing.next_mlp(self.place)

    def features(self, of: str) -> Floats:
        """Base features, then those that `of` adds: a read of `READS` or a shuffle of `SHUFFLED`."""
        added = self.reads[:, :, CATEGORIES.index(of.partition(",")[0])]
        if (across := SHUFFLED.get(of)) is not None:
            names = self.crossing.problems, self.crossing.histories
            added = np.asarray(
                shuffled_reads(added, across, *names, self.settings.seed, "reads", self.crossing.group.number)
            )
        return np.concatenate([self.base, added], axis=-1)

    def _projection(self, hidden: int) -> Floats:
        return gaussian_projection(self.settings.read_dimension, hidden, self.settings.seed, "reads")


def of_replay(crossings: Sequence[Crossing], architecture: Architecture, replay: Replay) -> Iterator[Statistic]:
    """Base R2 and increments of both directions: the assistant read at every layer, all features at the first one."""
    assert replay.analysis is not None, "the graph has no analysis then"
    for place, layer in enumerate(replay.layers):
        masses_place = architecture.full_attention_layers.index(layer)
        groups = [LayerReads(each, layer, place, masses_place, replay.analysis) for each in crossings]
        for of in (*READS, *SHUFFLED) if place == 0 else READS[:1]:
            yield from _of_feature(groups, of)


def _of_feature(groups: Sequence[LayerReads], of: str) -> Iterator[Statistic]:
    features, targets = [group.features(of) for group in groups], [group.targets for group in groups]
    cells = list(zip(_about_their_middle(features), _about_their_middle(targets), strict=True))
    base, layer = groups[0].base.shape[-1], groups[0].layer
    resamples = [group.crossing.resamples(group.settings) for group in groups]
    drawn: list[dict[int, float]] = []
    if of in RESAMPLED:  # both groups are resampled; a cell keeps its read, shuffled or not
        blocks = [by_block(x, y, each) for (x, y), each in zip(cells, resamples, strict=True)]
        for draw in zip(*(each.times() for each in resamples), strict=False):
            sums = [repeated(*each) for each in zip(blocks, draw, strict=True)]
            drawn.append({fit: _increment(sums[fit], sums[1 - fit], base) for fit in (0, 1)})
    whole = [moments(*each) for each in cells]
    for fit, test in ((0, 1), (1, 0)):
        label = f"fit {groups[fit].crossing.label}, test {groups[test].crossing.label}"
        try:
            of_base, of_all = read_scores(whole[fit], whole[test], base)
        except ValueError as error:
            gap = f"{label}, layer {layer}: {error}"
            yield Statistic(label, "incremental R2", of, None, "", layer, gap=gap)
            continue
        if of == READS[0]:
            yield Statistic(label, "base R2", "", of_base, "", layer)
        increment, ends = of_all - of_base, None
        if of in RESAMPLED:
            count = min(each.count for each in resamples)
            ends = block_interval(increment, [each[fit] for each in drawn], count)
        yield Statistic(label, "incremental R2", of, increment, "", layer, ends=ends)


def _about_their_middle(parts: Sequence[Floats]) -> list[Floats]:
    """Both groups' features or targets, less the middle of their means: for precision; scores do not depend on it."""
    middle = np.mean([part.mean(axis=(0, 1)) for part in parts], axis=0)
    return [part - middle for part in parts]


def _increment(fit: Moments, test: Moments, base: int) -> float:
    try:
        of_base, of_all = read_scores(fit, test, base)
    except ValueError:
        return np.nan
    return of_all - of_base
