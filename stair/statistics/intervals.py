"""Intervals for a benchmark's score over the problems that could have been in it.

Problems are the clusters: the four answers to one problem, at one turn or at several, are resampled together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from stair.statistics.grid import Gap, Grid
from stair.statistics.named_random import named_generator

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
"""The level of every interval here and in `paired`, `sampling_noise`, `printed_comparison` and `effects`."""
RESAMPLES = 4_000
ROUNDING = 1e-9
"""Two scores at most this far apart are equal: means of thirds differ by the order of their sum."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its two-sided interval of `LEVEL`, in the estimate's unit."""

    estimate: float
    low: float
    """Minus infinity if the estimate's noise is unknown; `high` is then infinity."""
    high: float


def without_rounding(difference: float) -> float:
    """The difference, or zero if only floating point makes it, so that its sign is that of a real difference."""
    return 0.0 if abs(difference) <= ROUNDING else difference


def average_scores(grid: Grid) -> Floats:
    """[problems] the share of correct answers, in percent; their mean is Avg@k."""
    return np.asarray(100.0 * grid.correct.sum(axis=1) / grid.correct.shape[1], dtype=np.float64)


def pass_scores(grid: Grid) -> Floats:
    """[problems] 100 where an answer is correct, else 0; their mean is Pass@k."""
    return np.asarray(100.0 * grid.correct.any(axis=1), dtype=np.float64)


def mean_scores(scores: list[Floats | Gap]) -> Floats | Gap:
    """[problems] the mean over turns, or the first gap. All turns list the problems in the same order."""
    total = None
    for each in scores:
        if isinstance(each, Gap):
            return each
        total = each if total is None else total + each
    assert total is not None
    return total / len(scores)


def median_interval(values: Sequence[float]) -> Interval:
    """The median of independent values with the exact interval of order statistics, for any distribution.

    Fewer than six values have no 95% interval; its ends are infinite.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    # The truth is below the value of this rank with a probability of at most (1 - LEVEL) / 2.
    rank = int(stats.binom.ppf((1.0 - LEVEL) / 2.0, len(ordered), 0.5))
    low, high = (float(ordered[rank - 1]), float(ordered[-rank])) if rank else (-np.inf, np.inf)
    return Interval(float(np.median(ordered)), low, high)


def bootstrap_interval(scores: Floats, *, limits: tuple[float, float] | None = (0.0, 100.0)) -> Interval:
    """The interval of a mean over problems, `scores` [problems], within `limits`; None for a difference.

    Percentiles of the resampled means, spread by what a sample of this size loses (`spread_factor`). A single problem has an
    interval without ends.
    """
    return ratio_interval(scores, np.ones_like(scores), limits=limits)


def ratio_interval(
    numerators: Floats, denominators: Floats, *, limits: tuple[float, float] | None = (0.0, 100.0)
) -> Interval:
    """As `bootstrap_interval`, of a sum over a sum: an accuracy among the responses of a group.

    `numerators` and `denominators` are [problems]. Problems without responses in the group have zeros.
    """
    count = len(numerators)
    if count == 0 or denominators.sum() == 0:
        raise ValueError("an interval needs at least one response")
    estimate = without_rounding(float(numerators.sum() / denominators.sum()))
    if count == 1:
        low, high = limits or (-np.inf, np.inf)
        return Interval(estimate, low, high)
    weights = _resamples(count)
    sums = weights @ denominators if (denominators != 1.0).any() else np.full(RESAMPLES, float(count))
    means = (weights @ numerators)[sums > 0] / sums[sums > 0]
    tail = (1.0 - LEVEL) / 2.0
    low, high = estimate + spread_factor(count) * (np.quantile(means, [tail, 1.0 - tail]) - estimate)
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return Interval(estimate, float(low), float(high))


def spread_factor(clusters: int) -> float:
    """The factor by which percentiles of resampled numbers of n `clusters`, at least two, are moved away from their centre.

    sqrt(n / (n - 1)) of the deviation, times Student's quantile with n - 1 degrees of freedom over the normal one.
    """
    tail = (1.0 - LEVEL) / 2.0
    deviation = np.sqrt(clusters / (clusters - 1))
    return float(deviation * stats.t.ppf(1.0 - tail, clusters - 1) / stats.norm.ppf(1.0 - tail))


@lru_cache(maxsize=8)
def _resamples(count: int) -> Floats:
    """[RESAMPLES, problems] how often each problem is drawn: the same draws for all numbers over so many problems."""
    generator = named_generator("bootstrap", count)
    return generator.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES).astype(np.float64)
