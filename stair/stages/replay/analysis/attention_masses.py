"""The statistics of attention masses: each source category's share by layer (Eq. 12, appendix A.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from stair.config.replay import Replay
from stair.models.architecture import Architecture
from stair.stages.replay.analysis.block_intervals import block_interval
from stair.stages.replay.analysis.crossing import Crossing
from stair.stages.replay.analysis.statistics_table import Statistic
from stair.stages.replay.measurement.categories import CATEGORIES

PRINTED = "assistant"
"""The category whose masses the text gives."""


def history_masses(masses: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The median over current problems within each history; each layer and category has a median of its own.

    [problems, histories, ..., categories], FP32 or FP64, to FP64 [histories, ..., categories].
    """
    return np.asarray(np.median(masses.astype(np.float64), axis=0))


def of_replay(crossings: Sequence[Crossing], architecture: Architecture, replay: Replay) -> Iterator[Statistic]:
    """Each category's mass, in percent, at every full-attention layer of both groups: the median over histories.

    Each category has its own median, so those of a layer need not sum to 100%. At the first measured layer and the reported
    one, the mass on earlier assistant bodies gets an interval.
    """
    settings = replay.analysis
    assert settings is not None, "the graph has no analysis then"
    for crossing in crossings:
        resamples = crossing.resamples(settings)
        for place, layer in enumerate(architecture.full_attention_layers):
            by_history = 100 * history_masses(crossing.masses(place))
            for category, masses in zip(CATEGORIES, by_history.T, strict=True):
                mass, ends = float(np.median(masses)), None
                if category == PRINTED and layer in (replay.layers[0], settings.reported_layer):
                    resampled = [float(np.median(masses[chosen])) for chosen in resamples]
                    ends = block_interval(mass, resampled, resamples.count, (0, 100))
                yield Statistic(crossing.label, "attention mass", category, mass, "%", layer, ends=ends)
