"""The statistics of attention masses: each source category's share by layer (Eq. 12, appendix A.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from stair.config.replay import Replay
from stair.config.replay_analysis import ReplayAnalysis
from stair.models.architecture import Architecture
from stair.stages.replay.analysis.block_intervals import weighted_medians
from stair.stages.replay.analysis.crossing import Crossing, Crossings
from stair.stages.replay.analysis.statistics_table import Statistic
from stair.stages.replay.measurement.categories import CATEGORIES

Floats = npt.NDArray[np.float64]


def history_masses(masses: npt.NDArray[np.floating]) -> Floats:
    """The median over current problems within each history; each layer and category has a median of its own.

    [problems, histories, ..., categories], FP32 or FP64, to FP64 [histories, ..., categories].
    """
    return np.asarray(np.median(masses.astype(np.float64), axis=0))


def median_masses(by_history: Floats) -> Floats:
    """The median over histories of `history_masses` [histories, ...]; the categories of a layer need not sum to one."""
    return np.asarray(np.median(by_history, axis=0))


PRINTED = "assistant"
"""The category whose masses the text gives."""


def of_replay(crossings: Crossings, architecture: Architecture, replay: Replay) -> Iterator[Statistic]:
    """The statistics of both groups."""
    assert replay.analysis is not None, "the graph has no analysis then"
    printed = {replay.layers[0], replay.analysis.reported_layer}
    for crossing in crossings:
        yield from attention_statistics(crossing, architecture.full_attention_layers, printed, replay.analysis)


def attention_statistics(
    crossing: Crossing, layers: Sequence[int], printed: Collection[int], settings: ReplayAnalysis
) -> Iterator[Statistic]:
    """Each category's mass, in percent, at every full-attention layer.

    `layers` are zero-based, in the order in which masses are stored. At the layers of `printed`, the mass on earlier
    assistant bodies gets an interval.
    """
    resamples = crossing.resamples(settings.resamples, settings.seed)
    for place, layer in enumerate(layers):
        by_history = 100 * history_masses(crossing.masses(place))
        for category, masses in zip(CATEGORIES, by_history.T, strict=True):
            mass = float(median_masses(masses))
            ends = None
            if category == PRINTED and layer in printed:
                ends = resamples.interval(mass, partial(weighted_medians, masses, resamples.copies), (0, 100))
            yield Statistic(crossing.label, "attention mass", category, mass, "%", layer, ends=ends)
