"""Effects that claims are about: paired differences over problems, each with its interval and the size that would decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import stats

from stair.statistics.conditioning import group_cell
from stair.statistics.grid import Gap, Responses
from stair.statistics.intervals import (
    LEVEL,
    ROUNDING,
    Floats,
    Interval,
    average_scores,
    mean_scores,
    pass_scores,
    ratio_interval,
    without_rounding,
)
from stair.statistics.joint import Ratio
from stair.statistics.metrics import LATER_TURNS
from stair.statistics.paired import POWER, deciding_problems, paired_difference, sign_flip_p_value


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference, positive in the direction that a claim states."""

    interval: Interval
    p_value: float | None = None
    """Two-sided, of the sign-flip test; None where the interval alone decides."""
    problems: int | None = None
    """The problems that are compared."""
    deciding: int | None = None
    """Problems with which a run shows an effect of this size in four of five cases."""
    deciding_samples: int | None = None
    """The same in samples of each problem, if the problems stay these."""
    seeds: tuple[float, ...] = ()
    """The effect of each controller seed, where there are several."""
    deciding_factor: float | None = None
    """Of two estimates: the number of histories or problems that shows it, over that of this run."""


class Side(NamedTuple):
    """Scores that are averaged for each problem: over turns, and over conditions that differ by a seed."""

    model: str
    benchmark: str
    conditions: tuple[str, ...]
    turns: tuple[int, ...]


def paired_effect(responses: Responses, terms: Sequence[tuple[int, Side]], *, passed: bool = False) -> Effect | Gap:
    """The mean over problems of a signed sum of scores, in percentage points: of Pass@k if `passed`, else of Avg@k.

    `terms` are signs and sides, all of one benchmark: (1, STAIR), (-1, Native), or the four sides of two gains.
    """
    total = _signed_sum(responses, terms, passed)
    if isinstance(total, Gap):
        return total
    positive, negative = (
        _signed_sum(responses, [(1, side) for sign, side in terms if sign == wanted], passed) for wanted in (1, -1)
    )
    assert not isinstance(positive, Gap) and not isinstance(negative, Gap)
    paired = paired_difference(positive, negative, *(part for _, side in terms for part in side), passed)
    return Effect(
        paired.interval,
        paired.p_value,
        paired.problems,
        deciding_problems(float(total.std(ddof=1)), float(total.mean())) if len(total) > 1 else None,
        None if passed else _deciding_samples(responses, terms, float(total.mean())),
        _seed_effects(responses, terms, passed),
    )


def paired_ratio(responses: Responses, terms: Sequence[tuple[int, Side]], *, passed: bool = False) -> Ratio | Gap:
    """The problems' scores whose mean is the estimate of `paired_effect`."""
    total = _signed_sum(responses, terms, passed)
    return total if isinstance(total, Gap) else Ratio(terms[0][1].benchmark, total, np.ones_like(total))


def _signed_sum(responses: Responses, terms: Sequence[tuple[int, Side]], passed: bool) -> Floats | Gap:
    """[problems] the signed sum of the sides' scores, or the first gap."""
    total: Floats | None = None
    for sign, side in terms:
        grids = [
            responses.grid(side.model, side.benchmark, condition, turn)
            for condition in side.conditions
            for turn in side.turns
        ]
        scores = pass_scores if passed else average_scores
        mean = mean_scores([grid if isinstance(grid, Gap) else scores(grid) for grid in grids])
        if isinstance(mean, Gap):
            return mean
        total = sign * mean if total is None else total + sign * mean
    assert total is not None
    return total


def _deciding_samples(responses: Responses, terms: Sequence[tuple[int, Side]], effect: float) -> int | None:
    """The samples of each problem with which a run shows a difference of Avg@k this large on these problems.

    Only sampling varies. Its variance comes from the spread among the samples of each problem.
    """
    total: Floats | float = 0.0
    for sign, side in terms:
        for condition in side.conditions:
            for turn in side.turns:
                grid = responses.grid(side.model, side.benchmark, condition, turn)
                assert not isinstance(grid, Gap)
                total = total + sign * 100.0 * grid.correct / (len(side.conditions) * len(side.turns))
    assert not isinstance(total, float)
    if abs(effect) <= ROUNDING or total.shape[1] < 2:
        return None
    variance = float(total.var(axis=1, ddof=1).sum()) / len(total) ** 2
    quantiles = float(stats.norm.ppf(1.0 - (1.0 - LEVEL) / 2.0) + stats.norm.ppf(POWER))
    return max(1, int(np.ceil(quantiles**2 * variance / effect**2)))


def _seed_effects(responses: Responses, terms: Sequence[tuple[int, Side]], passed: bool) -> tuple[float, ...]:
    """The effect with one seed at a time; empty where the first side has one."""
    first = terms[0][1].conditions
    if len(first) < 2:
        return ()
    effects = []
    for condition in first:
        single = [
            (sign, side._replace(conditions=(condition,)) if side.conditions == first else side) for sign, side in terms
        ]
        differences = _signed_sum(responses, single, passed)
        assert not isinstance(differences, Gap)
        effects.append(without_rounding(float(differences.mean())))
    return tuple(effects)


def conditional_ratio(
    responses: Responses, places: Sequence[tuple[str, str]], group: str, greater: str, less: str
) -> Ratio | Gap:
    """The difference of two pooled accuracies of `conditioning.pooled_history`, in percentage points: `greater` minus `less`.

    Both have the same members, so it is a sum of differences over a sum of sizes. A problem that several models answer is one
    cluster. `places` are the pooled models, each with a benchmark; `group` is one of `conditioning.GROUPS`.
    """
    sums: dict[tuple[str, str], list[float]] = {}
    for model, benchmark in places:
        for turn in LATER_TURNS:
            cells = [group_cell(responses, model, benchmark, turn, condition, group) for condition in (greater, less)]
            for cell in cells:
                if isinstance(cell, Gap):
                    return cell
            ours, theirs = (cell for cell in cells if not isinstance(cell, Gap))
            difference = ours.correct.sum(axis=1) - 1.0 * theirs.correct.sum(axis=1)
            for problem, change, size in zip(
                responses.problems[benchmark], difference, ours.members.sum(axis=1), strict=True
            ):
                both = sums.setdefault((benchmark, problem), [0.0, 0.0])
                both[0] += float(change)
                both[1] += float(size)
    changes, sizes = np.array(list(sums.values()), dtype=np.float64).reshape(-1, 2).T
    if not sizes.sum():
        return Gap(f"no response of the group {group}")
    return Ratio(", ".join(dict.fromkeys(benchmark for _, benchmark in places)), 100.0 * changes, sizes)


def conditional_effect(ratio: Ratio, *names: str) -> Effect:
    """A `conditional_ratio` with its interval; `names` are its group and conditions, which seed the flips."""
    changes, sizes = ratio.numerators, ratio.denominators
    interval = ratio_interval(changes, sizes, limits=None)
    residuals = (changes - interval.estimate * sizes) / sizes.mean()
    return Effect(
        interval,
        sign_flip_p_value(changes / 100.0, *names),
        len(changes),
        deciding_problems(float(residuals.std(ddof=1)), interval.estimate) if len(changes) > 1 else None,
    )


def occurrence(count: int, total: int) -> Effect:
    """How often something occurs, in percent, with the exact binomial interval; it decides whether it occurs at all."""
    tail = (1.0 - LEVEL) / 2.0
    low = float(stats.beta.ppf(tail, count, total - count + 1)) if count else 0.0
    high = float(stats.beta.ppf(1.0 - tail, count + 1, total - count)) if count < total else 1.0
    return Effect(Interval(100.0 * count / total, 100.0 * low, 100.0 * high))


def difference_of_estimates(greater: Interval, less: Interval) -> Effect:
    """The difference of two estimates, whose errors are taken as independent.

    If the interval of one estimate is infinite, so is the interval of the difference.
    """
    value = without_rounding(greater.estimate - less.estimate)
    below = float(np.hypot(greater.estimate - greater.low, less.high - less.estimate))
    above = float(np.hypot(greater.high - greater.estimate, less.estimate - less.low))
    interval = Interval(value, value - below, value + above)
    # Half the interval is one quantile of the error. The error shrinks with the square root of the size.
    half, quantile = below if value > 0.0 else above, float(stats.norm.ppf((1.0 + LEVEL) / 2.0))
    factor = ((1.0 + float(stats.norm.ppf(POWER)) / quantile) * half / value) ** 2 if value and half < np.inf else None
    return Effect(interval, deciding_factor=factor)


def difference_of_gains(greater: Effect | Gap, less: Effect | Gap) -> Effect | Gap:
    """The difference of two paired effects on benchmarks of their own, or the first gap.

    Their problems differ, so no sign can be flipped: the p-value is that of normal errors, by the interval; one without a
    spread.
    """
    if isinstance(greater, Gap) or isinstance(less, Gap):
        return greater if isinstance(greater, Gap) else less
    found = difference_of_estimates(greater.interval, less.interval)
    value, low, high = found.interval.estimate, found.interval.low, found.interval.high
    half = value - low if value > 0.0 else high - value
    p_value = (
        float(2.0 * stats.norm.sf(abs(value) / half * stats.norm.ppf((1.0 + LEVEL) / 2.0))) if half > ROUNDING else 1.0
    )
    seeds = zip(greater.seeds, less.seeds, strict=True) if len(greater.seeds) == len(less.seeds) else ()
    return replace(found, p_value=p_value, seeds=tuple(without_rounding(one - other) for one, other in seeds))
