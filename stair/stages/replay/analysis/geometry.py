"""The statistics of displacements: norms, energies, and cross-history neighborhoods (appendices A.2 and A.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stair.config.replay import Replay, ReplayAnalysis
from stair.models.architecture import Architecture
from stair.stages.replay.analysis.block_intervals import Ends, block_interval
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

_NORM: Quantity = "displacement norm"


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
        return self.quantity == _NORM or (self.quantity == "overlap" and self.of in RESAMPLED)


@dataclass(frozen=True)
class Geometry:
    """One group's folds and shuffles, which are the same at all layers and in all resamples."""

    crossing: Crossing
    settings: ReplayAnalysis

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        return problem_folds(self.crossing.problems, self.settings.seed, "folds", count=self.settings.folds)

    @cached_property
    def shuffles(self) -> AnchorShuffles:
        settings, crossing = self.settings, self.crossing
        seeds = [f"{settings.seed}/shuffle/{number}" for number in range(settings.shuffles)]
        return AnchorShuffles(
            crossing.problems, crossing.histories, self.folds, seeds, exclude_fixed=settings.exclude_fixed_points
        )

    def coordinates(self, parts: Decomposition, view: str) -> Sequence[Floats]:
        """[problems, histories, width] of each fold: the whitened interaction depends on the fold, other views do not."""
        if view != WHITENED:
            return [parts.view(view)] * len(self.folds)
        keys = self.settings.whitening
        projection = gaussian_projection(keys.dimension, parts.interaction.shape[-1], self.settings.seed, "whitening")
        projected = project(projection, parts.interaction)
        return [whitened(projected, fold, rho=keys.rho) for fold in self.folds]

    def numbers(
        self, displacements: Floats, chosen: Ints, views: Sequence[str], sizes: Sequence[int]
    ) -> dict[Name, float]:
        """Every number of one layer, of some histories with repetition; NaN where there is none.

        Args:
            displacements: [problems, histories, hidden] of all histories.
            chosen: indices of the drawn histories.
            views: the views whose overlaps are computed.
            sizes: of neighborhoods.
        """
        parts = decompose(displacements[:, chosen])
        total = energy(parts.raw)
        found = {
            Name(_NORM, "", ""): float(np.median(displacement_norms(parts.raw))),
            Name("total energy", "", ""): total,
        }
        for part, own in parts.energies().items():
            found[Name("energy", part, "%")] = 100 * own / total if total else np.nan
        for view in views:
            found |= self._overlaps(parts, chosen, view, sizes)
        return found

    def _overlaps(self, parts: Decomposition, chosen: Ints, view: str, sizes: Sequence[int]) -> dict[Name, float]:
        every = self.crossing
        lengths, blocks, names = (
            [of[place] for place in chosen] for of in (every.lengths, every.blocks, every.histories)
        )
        matched, shuffled = np.full((2, len(sizes)), np.nan)
        if len(set(blocks)) > 1:
            pairs = history_pairs(lengths, blocks, names, pairs=self.settings.history_pairs)
            table = neighbor_table(
                self.coordinates(parts, view), self.folds, {h for pair in pairs for h in pair}, max(sizes)
            )
            orders = [self.shuffles.of_pair(int(chosen[first]), int(chosen[second])) for first, second in pairs]
            shown = overlaps(table, pairs, orders, sizes)
            matched, shuffled = 100 * shown.matched, 100 * shown.shuffled.mean(axis=0)
        found = {}
        for place, size in enumerate(sizes):
            found[Name("overlap", view, "%", size)] = float(matched[place])
            found[Name("shuffled overlap", view, "%", size)] = float(shuffled[place])
        return found


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
    displacements, every = crossing.displacements(layer), np.arange(len(crossing.histories))
    views, sizes = (
        ((*VIEWS, WHITENED), settings.neighborhoods) if reported else (("interaction",), settings.neighborhoods[:1])
    )
    resampled_views = RESAMPLED if reported else ()

    @cache
    def resampled() -> list[dict[Name, float]]:
        return [
            geometry.numbers(displacements, chosen, resampled_views, sizes) for chosen in crossing.resamples(settings)
        ]

    for name, value in geometry.numbers(displacements, every, views, sizes).items():
        quantity, of, unit, k = name
        if np.isnan(value):
            gap = "all histories are of one source block, and a pair of histories needs two"
            if quantity == "energy":
                gap = f"layer {layer}: no history displaces the states"
            joint = ", " if quantity == "energy" else ": "
            yield Statistic(crossing.label, quantity, of, None, unit, layer, k, gap=f"{crossing.label}{joint}{gap}")
            continue
        ends: Ends | None = None
        if (reported and name.has_interval) or (last and quantity == _NORM):
            limits = (0, 100) if unit == "%" else (0, np.inf)
            ends = block_interval(value, partial(_of_name, resampled, name), len(set(crossing.blocks)), limits)
        yield Statistic(crossing.label, quantity, of, value, unit, layer, k, ends)


def _of_name(resampled: Callable[[], list[dict[Name, float]]], name: Name) -> Floats:
    return np.array([numbers[name] for numbers in resampled()])
