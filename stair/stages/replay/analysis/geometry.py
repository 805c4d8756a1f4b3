"""The statistics of displacements: norms, energies, and cross-history neighborhoods (appendices A.2 and A.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stair.config.replay import Replay, ReplayAnalysis
from stair.models.architecture import Architecture
from stair.stages.replay.analysis.block_intervals import block_interval
from stair.stages.replay.analysis.crossing import Crossing
from stair.stages.replay.analysis.decomposition import (
    VIEWS,
    Decomposition,
    decompose,
    displacement_norms,
    energy,
)
from stair.stages.replay.analysis.neighborhoods import (
    Fold,
    Table,
    anchor_shuffles,
    history_pairs,
    neighbor_table,
    overlaps,
    problem_folds,
    whitened,
)
from stair.stages.replay.analysis.random_by_name import Ints, gaussian_projection, project
from stair.stages.replay.analysis.statistics_table import Quantity, Statistic

Floats = npt.NDArray[np.float64]

WHITENED = "whitened interaction"
RESAMPLED = ("raw", "interaction", WHITENED)
"""Views whose overlaps have an interval. The additive view has none: histories only translate it, in every resample."""


class Name(NamedTuple):
    """The keys of a number within a layer."""

    quantity: Quantity
    of: str
    unit: str
    k: int | None = None

    @property
    def has_interval(self) -> bool:
        """At the reported layer."""
        if self.quantity == "energy":
            return self.of == "interaction"
        if self.quantity == "shuffled overlap":
            return self.of in RESAMPLED[1:]
        return self.quantity == "overlap" and self.of in RESAMPLED


@dataclass(frozen=True)
class Geometry:
    """One group's folds and shuffles, which are the same at all layers and in all resamples."""

    crossing: Crossing
    settings: ReplayAnalysis

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        return problem_folds(self.crossing.problems, self.settings.seed, "folds", count=self.settings.folds)

    @cached_property
    def shuffles(self) -> Callable[[int, int], Ints]:
        """The shuffles of a pair of histories, which are given by their indices."""
        settings, names = self.settings, self.crossing.histories
        seeds = [f"{settings.seed}/shuffle/{number}" for number in range(settings.shuffles)]

        def of_pair(first: int, second: int) -> Ints:
            between = names[first], names[second]
            return anchor_shuffles(
                self.crossing.problems, self.folds, between, seeds, exclude_fixed=settings.exclude_fixed_points
            )

        return cache(of_pair)


@dataclass(frozen=True)
class LayerGeometry:
    """One group's energies and overlaps at one layer, also of drawn histories."""

    geometry: Geometry
    displacements: Floats
    """[problems, histories, hidden]"""
    sizes: Sequence[int]
    """Of neighborhoods."""

    @cached_property
    def _projected(self) -> Floats:
        """[problems, histories, dimension]: the projection is linear, so the parts of a projection are projected parts."""
        settings = self.geometry.settings
        hidden = self.displacements.shape[-1]
        projection = gaussian_projection(settings.whitening.dimension, hidden, settings.seed, "whitening")
        return project(projection, self.displacements)

    @cached_property
    def _raw_neighbors(self) -> Table:
        """Of all histories. A resample changes no displacement."""
        folds = self.geometry.folds
        histories = range(self.displacements.shape[1])
        return neighbor_table([self.displacements] * len(folds), folds, histories, max(self.sizes))

    def numbers(self, chosen: Ints, views: Sequence[str]) -> dict[Name, float]:
        """Every number of some histories with repetition; NaN where there is none.

        Args:
            chosen: indices of the drawn histories.
            views: the views whose overlaps are computed.
        """
        parts = decompose(self.displacements[:, chosen])
        total = energy(parts.raw)
        found = {Name("total energy", "", ""): total}
        for part, own in parts.energies().items():
            found[Name("energy", part, "%")] = 100 * own / total if total else np.nan
        for view in views:
            found |= self._overlaps(parts, chosen, view)
        return found

    def _overlaps(self, parts: Decomposition, chosen: Ints, view: str) -> dict[Name, float]:
        every, sizes = self.geometry.crossing, self.sizes
        lengths, blocks, names = (
            [of[place] for place in chosen] for of in (every.lengths, every.blocks, every.histories)
        )
        matched, shuffled = np.full((2, len(sizes)), np.nan)
        if len(set(blocks)) > 1:
            pairs = history_pairs(lengths, blocks, names, pairs=self.geometry.settings.history_pairs)
            table = self._neighbors(parts, chosen, view, {place for pair in pairs for place in pair})
            orders = [self.geometry.shuffles(int(chosen[first]), int(chosen[second])) for first, second in pairs]
            shown = overlaps(table, pairs, orders, sizes)
            matched, shuffled = 100 * shown.matched, 100 * shown.shuffled.mean(axis=0)
        found = {}
        for place, size in enumerate(sizes):
            found[Name("overlap", view, "%", size)] = float(matched[place])
            found[Name("shuffled overlap", view, "%", size)] = float(shuffled[place])
        return found

    def _neighbors(self, parts: Decomposition, chosen: Ints, view: str, places: Iterable[int]) -> Table:
        """The neighborhoods under some of the drawn histories, by their places in `chosen`."""
        folds = self.geometry.folds
        if view == "raw":
            return {place: self._raw_neighbors[int(chosen[place])] for place in places}
        if view == WHITENED:  # its coordinates depend on the fold
            interaction = decompose(self._projected[:, chosen]).interaction
            rho = self.geometry.settings.whitening.rho
            coordinates = [whitened(interaction, fold, rho=rho) for fold in folds]
        else:
            coordinates = [parts.view(view)] * len(folds)
        return neighbor_table(coordinates, folds, places, max(self.sizes))


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
            ("source blocks", len(set(crossing.blocks))),
        ):
            yield Statistic(crossing.label, "size", name, count)
        for layer in range(architecture.layers):
            reported = layer == replay.analysis.reported_layer
            yield from _of_layer(geometry, layer, reported=reported, last=layer == architecture.layers - 1)


def _of_layer(geometry: Geometry, layer: int, *, reported: bool, last: bool) -> Iterator[Statistic]:
    """The numbers of one block: with intervals at the reported layer, and of the norm at the last."""
    crossing, settings = geometry.crossing, geometry.settings
    displacements, resamples = crossing.displacements(layer), crossing.resamples(settings)
    norms = displacement_norms(displacements)
    norm, ends = float(np.median(norms)), None
    if reported or last:
        medians = [float(np.median(norms[:, chosen])) for chosen in resamples]
        ends = block_interval(norm, medians, resamples.count, (0, np.inf))
    yield Statistic(crossing.label, "displacement norm", "", norm, "", layer, ends=ends)
    views, sizes = (
        ((*VIEWS, WHITENED), settings.neighborhoods) if reported else (("interaction",), settings.neighborhoods[:1])
    )
    at_layer = LayerGeometry(geometry, displacements, sizes)
    resampled = [at_layer.numbers(chosen, RESAMPLED) for chosen in resamples] if reported else []
    for name, value in at_layer.numbers(np.arange(len(crossing.histories)), views).items():
        quantity, of, unit, k = name
        if np.isnan(value):
            gap = "all histories are of one source block, and a pair of histories needs two"
            if quantity == "energy":
                gap = f"layer {layer}: no history displaces the states"
            joint = ", " if quantity == "energy" else ": "
            yield Statistic(crossing.label, quantity, of, None, unit, layer, k, gap=f"{crossing.label}{joint}{gap}")
            continue
        ends = None
        if reported and name.has_interval:
            ends = block_interval(value, [each[name] for each in resampled], resamples.count, (0, 100))
        yield Statistic(crossing.label, quantity, of, value, unit, layer, k, ends)
