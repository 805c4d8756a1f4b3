"""Paired comparisons of two conditions on the same problems."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from stair.statistics.intervals import LEVEL, ROUNDING, Floats, Interval, bootstrap_interval
from stair.statistics.named_random import named_generator

FLIPS = 10_000
FALSE_DISCOVERIES = 0.05
"""The expected share of false ones among the comparisons that are called different."""
POWER = 0.8
"""The probability with which a detectable difference is found."""
_EXACT = 12
"""With at most this many problems that differ, all sign patterns are counted."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference of two conditions over problems, in percentage points."""

    interval: Interval
    p_value: float
    """two-sided, of the sign-flip test: under no difference, either condition could have had either score"""
    detectable: float
    """the smallest true difference that this design finds with `POWER`"""
    problems: int


def paired_difference(scores: Floats, reference: Floats, *names: object) -> PairedDifference:
    """Compares two conditions by their scores for each problem.

    Args:
        scores, reference: [problems] in percent, in the same order of problems.
        names: what is compared; they seed the flips.
    """
    if scores.shape != reference.shape:
        raise ValueError(f"{len(scores)} and {len(reference)} problems cannot be paired")
    differences = scores - reference
    return PairedDifference(
        bootstrap_interval(differences, limits=None),
        sign_flip_p_value(differences, *names),
        detectable_difference(float(differences.std(ddof=1)), len(differences)),
        len(differences),
    )


def sign_flip_p_value(differences: Floats, *names: object) -> float:
    """How often random signs give a mean difference at least as large as the observed one, in absolute value."""
    nonzero = np.abs(differences[np.abs(differences) > ROUNDING])
    if len(nonzero) == 0:
        return 1.0
    observed = abs(differences.sum()) - ROUNDING
    if len(nonzero) <= _EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2 ** len(nonzero))[:, None] >> np.arange(len(nonzero))) & 1)
        return float((np.abs(signs @ nonzero) >= observed).mean())
    generator = named_generator("sign flips", *names)
    signs = 1.0 - 2.0 * generator.integers(0, 2, size=(FLIPS, len(nonzero)))
    return float((1 + (np.abs(signs @ nonzero) >= observed).sum()) / (1 + FLIPS))


def detectable_difference(deviation: float, problems: int) -> float:
    """The true difference that a paired t-test at `LEVEL` finds with `POWER`.

    `deviation` is the standard deviation of the differences between problems, in percentage points.
    """
    if problems < 2:
        return float("inf")
    quantiles = stats.t.ppf((1.0 + LEVEL) / 2.0, problems - 1) + stats.t.ppf(POWER, problems - 1)
    return float(quantiles) * deviation / float(np.sqrt(problems))


def deciding_problems(deviation: float, difference: float) -> int | None:
    """The least number of problems with which a paired t-test at `LEVEL` finds a true difference with `POWER`.

    None where there is no difference: no number of problems finds it. Units as in `detectable_difference`.
    """
    if abs(difference) <= ROUNDING:
        return None
    if deviation <= ROUNDING:
        return 2

    def suffice(problems: int) -> bool:
        return detectable_difference(deviation, problems) <= abs(difference)

    most = 2
    while not suffice(most):
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if suffice(middle) else (middle, most)
    return most


def false_discoveries(p_values: Sequence[float]) -> npt.NDArray[np.bool_]:
    """[comparisons] which of a table's comparisons are called different (`FALSE_DISCOVERIES`).

    The procedure of Benjamini and Hochberg.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values)
    below = np.flatnonzero(values[order] <= FALSE_DISCOVERIES * np.arange(1, len(values) + 1) / max(1, len(values)))
    called = np.zeros(len(values), dtype=np.bool_)
    if len(below):
        called[order[: below[-1] + 1]] = True
    return called
