"""What a historical read adds to a linear prediction of the next block's MLP response (appendix A.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from stair.config.replay import Replay
from stair.config.replay_analysis import ReplayAnalysis
from stair.models.architecture import Architecture
from stair.stages.replay.analysis.block_intervals import Ends, centered_interval, no_interval
from stair.stages.replay.analysis.crossing import Crossing, Crossings
from stair.stages.replay.analysis.decomposition import displacement
from stair.stages.replay.analysis.random_by_name import Ints, gaussian_projection, named_permutation, project
from stair.stages.replay.analysis.statistics_table import Statistic
from stair.stages.replay.measurement.categories import CATEGORIES

Floats = npt.NDArray[np.float64]
Measured = npt.NDArray[np.floating]


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
    problems, histories, _ = inputs.shape
    cells = problems, histories
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


@dataclass(frozen=True)
class Moments:
    """Sums over the cells of each source block: what ridge regression and its scores need, for any weights of blocks.

    Features and targets are relative to an offset that both groups share, for precision; scores do not depend on it.
    """

    blocks: Ints
    """[blocks] labels"""
    counts: Floats
    """[blocks] cells"""
    features: Floats
    """[blocks, 1 + features, 1 + features] products of [1, features]"""
    products: Floats
    """[blocks, 1 + features, hidden] products of [1, features] and targets"""
    squares: Floats
    """[blocks] squared norms of targets"""

    def weighted(self, weights: Floats | None = None) -> Moments:
        """The sums over all blocks, as one block; `weights` [blocks] says how often a resample has each."""
        times = np.ones(len(self.blocks)) if weights is None else weights
        return Moments(
            np.zeros(1, np.int64),
            np.tensordot(times, self.counts, 1)[None],
            np.tensordot(times, self.features, 1)[None],
            np.tensordot(times, self.products, 1)[None],
            np.tensordot(times, self.squares, 1)[None],
        )


@dataclass(frozen=True)
class Offset:
    """A point that both groups' features and targets are taken relative to."""

    features: Floats
    targets: Floats

    @classmethod
    def between(cls, features: Sequence[Floats], targets: Sequence[Floats]) -> Offset:
        """The middle of the groups' means, from their [problems, histories, ...] features and targets."""
        first, second = (
            np.mean([part.mean(axis=(0, 1), dtype=np.float64) for part in parts], axis=0)
            for parts in (features, targets)
        )
        return cls(first, second)


def moments(features: Floats, targets: Floats, blocks: Sequence[int], offset: Offset) -> Moments:
    """The moments of one group, relative to `offset`.

    Args:
        features: FP64 [problems, histories, features], the base features first.
        targets: FP64 [problems, histories, hidden] z(x | H) - z(x | no history) of the next block's MLP output.
        blocks: [histories] labels of source blocks.
        offset: the same for both groups.
    """
    labels = np.unique(np.asarray(blocks, np.int64))
    counts, grams, products, squares = [], [], [], []
    for label in labels:
        members = np.flatnonzero(np.asarray(blocks) == label)
        x = (features[:, members] - offset.features).reshape(-1, features.shape[-1])
        y = (targets[:, members] - offset.targets).reshape(-1, targets.shape[-1])
        x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
        counts.append(len(x))
        grams.append(x.T @ x)
        products.append(x.T @ y)
        squares.append(np.vdot(y, y))
    return Moments(labels, np.array(counts, np.float64), np.array(grams), np.array(products), np.array(squares))


@dataclass(frozen=True)
class Increment:
    """What the features after the base ones add on the test group."""

    base: float
    """R^2 of the base features: (TSS - SSE0) / TSS."""
    full: float
    """R^2 of all features: (TSS - SSE_read) / TSS."""

    @property
    def increment(self) -> float:
        """Delta R^2 = (SSE0 - SSE_read) / TSS."""
        return self.full - self.base


def read_increment(fit: Moments, test: Moments, base: int) -> Increment:
    """Fit on one group, score on the other.

    Ridge regression with features standardized by the fit group. The penalty is the number of its cells; the intercept is not
    penalized. Features that are constant in the fit group are ignored. TSS is about the test group's mean. Sums run over all
    outputs. The first `base` features are the base ones. Raises ValueError if the targets of the test group do not vary.
    """
    fit, test = fit.weighted(), test.weighted()
    total = float(test.squares[0] - np.vdot(test.products[0, 0], test.products[0, 0]) / test.counts[0])
    if not total > 1e-12 * float(test.squares[0]):
        raise ValueError("the test group's targets do not vary")
    widths = base, fit.features.shape[-1] - 1
    return Increment(*(1 - _squared_error(fit, test, width) / total for width in widths))


def _squared_error(fit: Moments, test: Moments, width: int) -> float:
    """The test group's SSE with the first `width` features.

    With features x standardized and targets y centered by the fit group, which has n cells, the slopes are
    (x'x + n I)^-1 x'y, and the SSE of the test group is |y|^2 - 2 <slopes, x'y> + <slopes, x'x slopes>.
    """
    cells, kept = fit.counts[0], slice(1, 1 + width)
    middle, level = fit.features[0, 0, kept] / cells, fit.products[0, 0] / cells
    gram, product = _about(fit, width, middle, level)
    spread = np.sqrt(np.maximum(np.diag(gram) / cells, 0))
    # What rounding leaves of a constant feature is no deviation.
    constant = spread <= 1e-12 * np.sqrt(np.diag(fit.features[0])[kept] / cells)
    inverse = np.where(constant, 0.0, 1 / np.where(constant, 1.0, spread))
    penalized = gram * np.outer(inverse, inverse) + cells * np.eye(width)
    slopes = inverse[:, None] * np.linalg.solve(penalized, inverse[:, None] * product)
    gram, product = _about(test, width, middle, level)
    sums = test.products[0, 0]
    squares = test.squares[0] - 2 * np.vdot(sums, level) + test.counts[0] * np.vdot(level, level)
    return float(squares - 2 * np.vdot(slopes, product) + np.vdot(slopes, gram @ slopes))


def _about(group: Moments, width: int, middle: Floats, level: Floats) -> tuple[Floats, Floats]:
    """Products of features with features and with targets, relative to other points."""
    kept = slice(1, 1 + width)
    sums, targets, cells = group.features[0, 0, kept], group.products[0, 0], group.counts[0]
    crossed = np.outer(sums, middle)
    gram = group.features[0, kept, kept] - crossed - crossed.T + cells * np.outer(middle, middle)
    product = (
        group.products[0, kept] - np.outer(sums, level) - np.outer(middle, targets) + cells * np.outer(middle, level)
    )
    return gram, product


READS = ("assistant", "user", "template")
SHUFFLED: dict[str, Literal["histories", "problems"]] = {
    "assistant, shuffled across histories": "histories",
    "assistant, shuffled across problems": "problems",
}
"""The controls: what the assistant read is shuffled across."""
RESAMPLED = ("assistant", "user", "assistant, shuffled across histories")
"""The increments with an interval: the text gives or compares their numbers."""


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
            added = np.asarray(shuffled_reads(added, across, *names, self.settings.seed, "reads", self.crossing.number))
        return np.concatenate([self.base, added], axis=-1)

    def _projection(self, hidden: int) -> Floats:
        return gaussian_projection(self.settings.read_dimension, hidden, self.settings.seed, "reads")


def of_replay(crossings: Crossings, architecture: Architecture, replay: Replay) -> Iterator[Statistic]:
    """The statistics of both directions."""
    assert replay.analysis is not None, "the graph has no analysis then"
    full, layers = architecture.full_attention_layers, architecture.layers
    return increment_statistics(crossings, replay.layers, full, layers, replay.analysis)


def increment_statistics(
    crossings: Crossings,
    measured: Sequence[int],
    full_attention: Sequence[int],
    layers: int,
    settings: ReplayAnalysis,
) -> Iterator[Statistic]:
    """Base R2 and increments of both directions: the assistant read at every layer, all features at the first one.

    Args:
        crossings: groups 1 and 2.
        measured: layers with reads, in the order in which these are stored.
        full_attention: layers with masses, in the order in which these are stored.
        layers: the model's number of blocks.
        settings: the analysis's keys.

    Raises:
        ValueError: a measured layer has no next block.
    """
    for place, layer in enumerate(measured):
        if layer + 1 >= layers:
            raise ValueError(
                f"replay.layers: layer {layer} has no next block whose MLP output a read could predict; the model has layers 0 "
                f"to {layers - 1}"
            )
        groups = [LayerReads(each, layer, place, full_attention.index(layer), settings) for each in crossings]
        for of in (*READS, *SHUFFLED) if place == 0 else READS[:1]:
            yield from _of_feature(groups, of)


def _of_feature(groups: Sequence[LayerReads], of: str) -> Iterator[Statistic]:
    features = [group.features(of) for group in groups]
    offset = Offset.between(features, [group.targets for group in groups])
    sums = [moments(x, group.targets, group.crossing.blocks, offset) for x, group in zip(features, groups, strict=True)]
    base, layer = groups[0].base.shape[-1], groups[0].layer
    for fit, test in ((0, 1), (1, 0)):
        label = f"fit {groups[fit].crossing.label}, test {groups[test].crossing.label}"
        try:
            scores = read_increment(sums[fit], sums[test], base)
        except ValueError as error:
            gap = f"{label}, layer {layer}: {error}"
            yield Statistic(label, "incremental R2", of, None, "", layer, gap=gap)
            continue
        if of == READS[0]:
            yield Statistic(label, "base R2", "", scores.base, "", layer)
        ends = _interval(groups, sums, fit, test, scores.increment, base) if of in RESAMPLED else None
        yield Statistic(label, "incremental R2", of, scores.increment, "", layer, ends=ends)


def _interval(
    groups: Sequence[LayerReads], sums: Sequence[Moments], fit: int, test: int, increment: float, base: int
) -> Ends:
    """The interval of one direction's increment; both groups are resampled. A cell keeps its read, shuffled or not."""
    settings = groups[0].settings
    resamples = [group.crossing.resamples(settings.resamples, settings.seed) for group in groups]
    blocks = min(each.count for each in resamples)
    if not all(each.suffice for each in resamples):
        return no_interval(blocks)
    increments = []
    for draws in zip(*(each.draws.astype(np.float64) for each in resamples), strict=True):
        drawn = [each.weighted(weights) for each, weights in zip(sums, draws, strict=True)]
        increments.append(read_increment(drawn[fit], drawn[test], base).increment)
    return centered_interval(increment, np.array(increments), blocks)
