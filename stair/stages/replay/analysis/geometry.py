"""The statistics of displacements: norms, energies, and cross-history neighborhoods (appendices A.2 and A.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product

import numpy as np
import numpy.typing as npt

from stair.config.replay import Replay, ReplayAnalysis
from stair.models.architecture import Architecture
from stair.stages.replay.analysis.block_intervals import BlockResamples, block_interval, weighted_medians
from stair.stages.replay.analysis.crossing import Crossing
from stair.stages.replay.analysis.decomposition import (
    VIEWS,
    Decomposition,
    decompose,
    displacement_norms,
    energy,
)
from stair.stages.replay.analysis.neighborhoods import (
    AnchorShuffles,
    Fold,
    Overlaps,
    Pairs,
    Table,
    history_pairs,
    neighbor_table,
    overlaps,
    problem_folds,
    whitened,
)
from stair.stages.replay.analysis.random_by_name import gaussian_projection, project
from stair.stages.replay.analysis.resampled_interaction import ResampledInteraction, interaction_percentages
from stair.stages.replay.analysis.statistics_table import Quantity, Statistic

Floats = npt.NDArray[np.float64]

WHITENED = "whitened interaction"
RESAMPLED = ("raw", "interaction", WHITENED)
"""Views whose overlaps have an interval. The additive view has none: histories only translate it, in every resample."""

_BATCH = 32
"""Resamples whose means are computed together: 128 MiB at the paper's size."""


@dataclass(frozen=True)
class Geometry:
    """One group's folds, pairs of histories, shuffles and resamples, which are the same at all layers."""

    crossing: Crossing
    settings: ReplayAnalysis

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        return problem_folds(self.crossing.problems, self.settings.seed, "folds", count=self.settings.folds)

    @cached_property
    def shuffles(self) -> AnchorShuffles:
        return self._shuffles(self.settings.shuffles)

    @cached_property
    def resamples(self) -> BlockResamples:
        return self.crossing.resamples(self.settings)

    def pairs(self, copies: Sequence[int] | None = None) -> tuple[tuple[int, int], ...]:
        """The pairs of all histories, or of a resample's."""
        crossing = self.crossing
        return history_pairs(
            crossing.lengths, crossing.blocks, crossing.histories, copies=copies, pairs=self.settings.history_pairs
        )

    def coordinates(self, parts: Decomposition, view: str) -> Sequence[Floats]:
        """[problems, histories, width] of each fold: the whitened interaction depends on the fold, other views do not."""
        if view != WHITENED:
            return [parts.view(view)] * len(self.folds)
        keys = self.settings.whitening
        projection = gaussian_projection(keys.dimension, parts.interaction.shape[-1], self.settings.seed, "whitening")
        projected = project(projection, parts.interaction)
        return [whitened(projected, fold, rho=keys.rho) for fold in self.folds]

    def overlaps(self, parts: Decomposition, view: str, sizes: Sequence[int]) -> Overlaps:
        """The overlaps of all pairs in a view."""
        pairs = self.pairs()
        histories = {each for pair in pairs for each in pair}
        table = neighbor_table(self.coordinates(parts, view), self.folds, histories, max(sizes))
        return overlaps(table, pairs, self.shuffles, sizes)

    @cached_property
    def resampled_pairs(self) -> tuple[tuple[tuple[int, int], ...] | None, ...]:
        """The pairs of every resample; None for one of a single block."""
        return tuple(
            self.pairs(copies.tolist()) if np.count_nonzero(blocks) > 1 else None
            for copies, blocks in zip(self.resamples.copies, self.resamples.draws, strict=True)
        )

    def resampled_overlaps(self, parts: Decomposition, view: str, sizes: Sequence[int]) -> Floats:
        """[matched and shuffled, sizes, resamples with pairs] overlaps in percent, each with its resample's own pairs.

        `parts` decomposes all cells; `view` is one of `RESAMPLED`. Raw displacement has matched overlaps only.
        """
        rows, shuffles = [], self._shuffles(0) if view == "raw" else self.shuffles
        for pairs, table in self._resampled_tables(parts, view, max(sizes)):
            shown = overlaps(table, pairs, shuffles, sizes)
            rows.append((shown.matched, *([] if view == "raw" else [shown.shuffled.mean(axis=0)])))
        return np.asarray(100 * np.moveaxis(np.array(rows), 0, -1))

    def _resampled_tables(self, parts: Decomposition, view: str, most: int) -> Iterator[tuple[Pairs, Table]]:
        """The pairs and neighborhoods of every resample with pairs.

        The interaction is that of the resample's cells; whitening is that of all cells. Raw displacement does not depend on
        the resample, so its neighborhoods are computed once.
        """
        if view == "raw":
            every = range(len(self.crossing.histories))
            raw = neighbor_table(self.coordinates(parts, view), self.folds, every, most)
            yield from ((pairs, raw) for pairs in self.resampled_pairs if pairs is not None)
            return
        cells = [ResampledInteraction(parts.interaction, self.folds)]
        if view == WHITENED:
            of_folds = zip(self.coordinates(parts, view), self.folds, strict=True)
            cells = [ResampledInteraction(coordinates, [fold]) for coordinates, fold in of_folds]
        for start in range(0, self.settings.resamples, _BATCH):
            batch = self.resamples.copies[start : start + _BATCH]
            means = [each.projected_means(batch) for each in cells]
            for place, copies in enumerate(batch):
                if (pairs := self.resampled_pairs[start + place]) is None:
                    continue
                histories = sorted({each for pair in pairs for each in pair})
                # Each fold's anchors have neighborhoods in one of `cells`.
                found = [
                    each.neighbors(histories, of_batch[place], copies, most)
                    for each, of_batch in zip(cells, means, strict=True)
                ]
                yield pairs, dict(zip(histories, np.sum(found, axis=0), strict=True))

    def _shuffles(self, count: int) -> AnchorShuffles:
        settings, crossing = self.settings, self.crossing
        seeds = [f"{settings.seed}/shuffle/{number}" for number in range(count)]
        return AnchorShuffles(
            crossing.problems, crossing.histories, self.folds, seeds, exclude_fixed=settings.exclude_fixed_points
        )


def of_replay(crossings: Sequence[Crossing], architecture: Architecture, replay: Replay) -> Iterator[Statistic]:
    """Each group's sizes, then norm, energies and overlaps of each of the model's blocks.

    All views and sizes are measured at the reported layer; the interaction and the first size at every layer.
    """
    assert replay.analysis is not None, "the graph has no analysis then"
    for crossing in crossings:
        geometry = Geometry(crossing, replay.analysis)
        for name, count in (
            ("current problems", len(crossing.problems)),
            ("histories", len(crossing.histories)),
            ("source blocks", geometry.resamples.count),
        ):
            yield Statistic(crossing.label, "size", name, count)
        for layer in range(architecture.layers):
            parts = decompose(crossing.displacements(layer))
            reported = layer == replay.analysis.reported_layer
            yield _norm(geometry, parts, layer, printed=reported or layer == architecture.layers - 1)
            yield from _energies(geometry, parts, layer, printed=reported)
            yield from _overlaps(geometry, parts, layer, reported=reported)


def _norm(geometry: Geometry, parts: Decomposition, layer: int, *, printed: bool) -> Statistic:
    norms, resamples = displacement_norms(parts.raw), geometry.resamples
    median, ends = float(np.median(norms)), None
    if printed:
        ends = block_interval(median, partial(weighted_medians, norms, resamples.copies), resamples.count, (0, np.inf))
    return Statistic(geometry.crossing.label, "displacement norm", "", median, "", layer, ends=ends)


def _energies(geometry: Geometry, parts: Decomposition, layer: int, *, printed: bool) -> Iterator[Statistic]:
    label, total, resamples = geometry.crossing.label, energy(parts.raw), geometry.resamples
    yield Statistic(label, "total energy", "", total, "", layer)
    for name, own in parts.energies().items():
        if not total:
            gap = f"{label}, layer {layer}: no history displaces the states"
            yield Statistic(label, "energy", name, None, "%", layer, gap=gap)
            continue
        share, ends = 100 * own / total, None
        if printed and name == "interaction":
            resampled = partial(interaction_percentages, parts.raw, parts.interaction, resamples.copies)
            ends = block_interval(share, resampled, resamples.count, (0, 100))
        yield Statistic(label, "energy", name, share, "%", layer, ends=ends)


def _overlaps(geometry: Geometry, parts: Decomposition, layer: int, *, reported: bool) -> Iterator[Statistic]:
    label, settings, blocks = geometry.crossing.label, geometry.settings, geometry.resamples.count
    sizes = settings.neighborhoods if reported else settings.neighborhoods[:1]
    quantities: tuple[Quantity, Quantity] = ("overlap", "shuffled overlap")
    for view in (*VIEWS, WHITENED) if reported else ("interaction",):
        if blocks == 1:
            gap = f"{label}: all histories are of one source block, and a pair of histories needs two"
            for size, quantity in product(sizes, quantities):
                yield Statistic(label, quantity, view, None, "%", layer, size, gap=gap)
            continue
        resampled = cache(partial(geometry.resampled_overlaps, parts, view, sizes))
        shown = geometry.overlaps(parts, view, sizes)
        for place, size in enumerate(sizes):
            shares = shown.matched[place], shown.shuffled[:, place].mean()
            for row, (quantity, share) in enumerate(zip(quantities, shares, strict=True)):
                percent, ends = 100 * float(share), None
                if reported and view in RESAMPLED and not (view == "raw" and row):
                    ends = block_interval(percent, partial(_of_size, resampled, row, place), blocks, (0, 100))
                yield Statistic(label, quantity, view, percent, "%", layer, size, ends)


def _of_size(resampled: Callable[[], Floats], row: int, place: int) -> Floats:
    return np.asarray(resampled()[row, place])
