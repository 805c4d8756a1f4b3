"""The statistics of read prediction: what a historical read adds at each measured layer (appendix A.6)."""

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
from stair.stages.replay.analysis.projection import gaussian_projection, project
from stair.stages.replay.analysis.read_prediction import (
    Moments,
    Offset,
    base_features,
    moments,
    read_increment,
    shuffled_reads,
)
from stair.stages.replay.analysis.statistics_table import Statistic
from stair.stages.replay.measurement.categories import CATEGORIES

Floats = npt.NDArray[np.float64]

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
        crossings: the cells of groups 1 and 2.
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
    """The interval of one direction's increment; both groups are resampled.

    A cell keeps the read, shuffled or not, that it has in the whole group.
    """
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
