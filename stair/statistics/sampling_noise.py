"""What sampling contributes to a score with the problems fixed, and the interval for another run's score.

A published number and a reproduced one come from two runs of the same design, and both are noisy. The interval's width is
that of a difference of two runs, sqrt(2) of one run's own, if the other run is as noisy as this one.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from stair.statistics.grid import Grid
from stair.statistics.intervals import LEVEL, Interval


@dataclass(frozen=True, slots=True)
class Noise:
    """What sampling contributes to one run's score: its standard error, in percent, with the problems fixed."""

    standard_error: float
    step: float
    """the smallest difference that two runs can have"""
    degrees: float
    """of freedom, of the standard error: about the number of problems whose answers disagree"""


def average_noise(grid: Grid) -> Noise:
    """The noise of Avg@k at one turn, from the spread among the answers to each problem (unbiased, binomial).

    The variance of one answer is added, because answers that all agree in one run may differ in the next.
    """
    problems, samples = grid.correct.shape
    if samples < 2:
        raise ValueError("the noise of a run needs at least two answers to each problem")
    rate = grid.correct.mean(axis=1)
    variance = (rate * (1.0 - rate) / (samples - 1)).sum() / problems**2 + 1.0 / grid.correct.size**2
    return Noise(100.0 * float(np.sqrt(variance)), 100.0 / grid.correct.size, _degrees(rate * (1.0 - rate)))


def pass_noise(grid: Grid) -> Noise:
    """The noise of Pass@k at one turn.

    Whether a problem is passed is one draw. Its variance comes from the rates of success that are compatible with its answers,
    among all that the problems have. One problem's draw is added, as for `average_noise`.
    """
    problems = len(grid.correct)
    variances = pass_variances(grid)
    error = 100.0 * float(np.sqrt(variances.sum() + 1.0)) / problems
    return Noise(error, 100.0 / problems, _degrees(variances))


def pass_variances(grid: Grid) -> npt.NDArray[np.float64]:
    """[problems] the variance of whether a problem is passed, in problems squared."""
    samples = grid.correct.shape[1]
    counts = grid.correct.sum(axis=1)
    none = (1.0 - _RATES) ** samples
    return np.asarray((_rates_given_counts(counts, samples) @ (none * (1.0 - none)))[counts], dtype=np.float64)


def binomial_noise(correct: int, n: int) -> Noise:
    """The noise of an accuracy among the `n` responses of a group, as if each were of a problem of its own.

    It is too wide, since answers to one problem vary less than answers to all. It does not count that groups vary from run to
    run.
    """
    rate = correct / n
    return Noise(100.0 * float(np.sqrt(rate * (1.0 - rate) / n)), 100.0 / n, max(1.0, n - 1.0))


def mean_noise(noises: list[Noise]) -> Noise:
    """The noise of a mean over turns, whose answers are sampled independently."""
    error = float(np.sqrt(sum(noise.standard_error**2 for noise in noises))) / len(noises)
    step = min(noise.step for noise in noises) / len(noises)
    return Noise(error, step, sum(noise.degrees for noise in noises))


def rerun_interval(estimate: float, noise: Noise) -> Interval:
    """Where the score of another run of the same design falls, given this run's."""
    width = (
        float(stats.t.ppf((1.0 + LEVEL) / 2.0, noise.degrees)) * np.sqrt(2.0) * noise.standard_error + noise.step / 2.0
    )
    return Interval(estimate, max(0.0, float(estimate - width)), min(100.0, float(estimate + width)))


def _degrees(variances: npt.NDArray[np.float64]) -> float:
    """The effective number of problems behind a sum of variances, less one; at least one."""
    squares = float((variances**2).sum())
    return max(1.0, float(variances.sum()) ** 2 / squares - 1.0) if squares else 1.0


def _rates_given_counts(counts: npt.NDArray[np.int64], samples: int) -> npt.NDArray[np.float64]:
    """How likely each rate of `_RATES` is for a problem with 0 to `samples` correct answers: [samples + 1, rates].

    The distribution of rates over problems is fitted without a form (expectation maximisation from a uniform one, stopped
    early to stay smooth): no beta distribution has problems that always succeed and others that seldom do.
    """
    frequency = np.bincount(counts, minlength=samples + 1) / len(counts)
    likelihood = stats.binom.pmf(np.arange(samples + 1)[:, None], samples, _RATES)
    weights = np.full(len(_RATES), 1.0 / len(_RATES))
    for _ in range(_ROUNDS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = frequency @ posterior
    posterior = likelihood * weights
    total = posterior.sum(axis=1, keepdims=True)
    return np.divide(posterior, total, out=np.zeros_like(posterior), where=total > 0.0)


_RATES = np.linspace(0.0, 1.0, 41)
_ROUNDS = 50
