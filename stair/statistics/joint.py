"""The joint effect of several parts: their mean, with whole problems resampled for all parts at once.

Parts that compare the same problems have dependent errors. One draw of problems serves all of them, so the interval of the
mean contains this dependence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stair.statistics.intervals import LEVEL, RESAMPLES, Floats, Interval, spread_factor, without_rounding
from stair.statistics.named_random import named_generator


@dataclass(frozen=True, eq=False)
class Ratio:
    """A sum over a sum over one set of problems: a mean difference, or the difference of two pooled accuracies."""

    problems: str
    """Names the set. Ratios over one set share the draws, so they list its problems in one order."""
    numerators: Floats
    """[problems]"""
    denominators: Floats
    """[problems] Ones for a mean."""
    sign: int = 1

    @property
    def value(self) -> float:
        """The signed ratio."""
        return float(self.sign * self.numerators.sum() / self.denominators.sum())

    @property
    def influence(self) -> Floats:
        """[problems] What each problem adds to the value's deviation from its expectation, to first order."""
        residuals = self.sign * self.numerators - self.value * self.denominators
        return np.asarray(residuals / self.denominators.sum(), dtype=np.float64)


Ratios = Sequence[Ratio]
"""A part's effect: the sum of its ratios. The difference of the gains on two benchmarks has two."""


def joint_interval(effects: Sequence[Ratios]) -> Interval:
    """The mean of the effects with the interval of resampled problems.

    The percentiles are widened as those of `ratio_interval`, for the smallest set. With a set of one problem the interval is
    infinite.
    """
    counts = _counts(effects)
    estimate = without_rounding(float(np.mean([sum(ratio.value for ratio in effect) for effect in effects])))
    if min(counts.values()) == 1:
        return Interval(estimate, -np.inf, np.inf)
    weights = {problems: _draws(problems, count) for problems, count in counts.items()}
    means = np.zeros(RESAMPLES)
    for ratio in (ratio for effect in effects for ratio in effect):
        drawn = weights[ratio.problems]
        with np.errstate(invalid="ignore"):  # A draw without a response of the group gives NaN.
            means += ratio.sign * (drawn @ ratio.numerators) / (drawn @ ratio.denominators) / len(effects)
    tail = (1.0 - LEVEL) / 2.0
    ends = np.nanquantile(means, [tail, 1.0 - tail])
    low, high = estimate + spread_factor(min(counts.values())) * (ends - estimate)
    return Interval(estimate, float(low), float(high))


def joint_error(effects: Sequence[Ratios]) -> tuple[float, dict[str, float]]:
    """The mean of the effects, and for each set of problems the standard deviation that it adds times the root of its size.

    The linearized twin of `joint_interval`: the variance of the mean is the sum of deviation**2 / problems over the sets.
    """
    estimate = float(np.mean([sum(ratio.value for ratio in effect) for effect in effects]))
    influence = {problems: np.zeros(count) for problems, count in _counts(effects).items()}
    for ratio in (ratio for effect in effects for ratio in effect):
        influence[ratio.problems] += ratio.influence / len(effects)
    return estimate, {problems: float(each.std(ddof=1) * len(each)) for problems, each in influence.items()}


def _counts(effects: Sequence[Ratios]) -> dict[str, int]:
    return {ratio.problems: len(ratio.numerators) for effect in effects for ratio in effect}


def _draws(problems: str, count: int) -> Floats:
    """[RESAMPLES, problems] How often each problem of a set is drawn."""
    generator = named_generator("joint bootstrap", problems, count)
    return generator.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES).astype(np.float64)
