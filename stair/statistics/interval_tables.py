"""Every reported number with its two intervals, and every comparison of two conditions."""

from collections.abc import Callable, Sequence
from math import nan
from typing import NamedTuple

from stair.statistics.conditioning import CONDITIONS, GROUPS, group_cell
from stair.statistics.grid import Gap, Grid, Responses
from stair.statistics.intervals import (
    Floats,
    Interval,
    average_scores,
    bootstrap_interval,
    mean_scores,
    pass_scores,
    ratio_interval,
)
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE
from stair.statistics.paired import paired_difference
from stair.statistics.sampling_noise import Noise, average_noise, binomial_noise, mean_noise, pass_noise, rerun_interval


class IntervalRow(NamedTuple):
    """A score with its intervals, in percent; numbers are NaN where there is a gap.

    `low` and `high` hold for other problems of the same kind, `rerun_low` and `rerun_high` for another run.
    """

    model: str
    benchmark: str
    condition: str
    turn: str
    group: str
    metric: str
    value: float
    low: float
    high: float
    rerun_low: float
    rerun_high: float
    gap: str | None


class ComparisonRow(NamedTuple):
    """A difference of two conditions, in percentage points; numbers are NaN where there is a gap."""

    model: str
    benchmark: str
    condition: str
    reference: str
    turn: str
    metric: str
    value: float
    low: float
    high: float
    p: float
    detectable: float
    gap: str | None


Scores = Callable[[Grid], Floats]
NoiseOf = Callable[[Grid], Noise]
Cells = tuple[float, float, float, float, float, str | None]
"""The last cells of a row: five numbers, and the reason of a gap."""


def _metrics(samples: int) -> dict[str, tuple[Scores, NoiseOf]]:
    return {f"Avg@{samples}": (average_scores, average_noise), f"Pass@{samples}": (pass_scores, pass_noise)}


def turn_intervals(responses: Responses) -> list[IntervalRow]:
    """Intervals of Avg@k and Pass@k at every turn and over T2 to T4."""
    rows = []
    for model, benchmark in responses.pairs:
        for condition in responses.conditions(model, benchmark):
            turns = responses.turns(model, benchmark, condition)
            spans = {f"T{turn}": [turn] for turn in turns}
            if max(turns) > 1:
                spans[MEAN] = list(LATER_TURNS)
            for span, members in spans.items():
                grids = [responses.grid(model, benchmark, condition, turn) for turn in members]
                for name, (scores, noise) in _metrics(responses.samples).items():
                    cells = _interval_cells(grids, scores, noise)
                    rows.append(IntervalRow(model, benchmark, condition, span, "", name, *cells))
    return rows


def history_intervals(
    responses: Responses, model: str, benchmark: str, conditions: Sequence[str] = CONDITIONS
) -> list[IntervalRow]:
    """Intervals of the accuracies of `conditioning.history_tables`, for those of its conditions that have rows."""
    rows = []
    for turn in LATER_TURNS:
        for group in GROUPS:
            for condition in (REFERENCE, *conditions):
                keys = (model, benchmark, condition, f"T{turn}", group, "accuracy")
                cell = group_cell(responses, model, benchmark, turn, condition, group, conditions)
                if isinstance(cell, Gap) or cell.n == 0:
                    reason = cell.reason if isinstance(cell, Gap) else "no response in this group"
                    rows.append(IntervalRow(*keys, *_gap_cells(reason)))
                    continue
                interval = ratio_interval(100.0 * cell.correct.sum(axis=1), 1.0 * cell.members.sum(axis=1))
                rows.append(IntervalRow(*keys, *_cells(interval, binomial_noise(cell.correct_count, cell.n))))
    return rows


def condition_comparisons(
    responses: Responses,
    model: str,
    benchmark: str,
    condition: str,
    reference: str,
    *,
    turns: Sequence[int] = LATER_TURNS,
    members: Sequence[str] | None = None,
) -> list[ComparisonRow]:
    """Paired differences of two conditions at each turn, and over T2-T4 if these are the turns.

    Each has the interval, the p-value of the sign-flip test, and the smallest difference that the design finds in four of
    five cases. `members` are the conditions of a family, whose scores are averaged for each problem (so Pass@k is the mean
    of theirs); without them, `condition` alone.
    """
    spans = {f"T{turn}": [turn] for turn in turns}
    if tuple(turns) == LATER_TURNS:
        spans[MEAN] = list(LATER_TURNS)
    rows = []
    of_side = ([condition] if members is None else members, [reference])
    for span, in_span in spans.items():
        for name, (scores, _) in _metrics(responses.samples).items():
            keys = (model, benchmark, condition, reference, span, name)
            sides = [
                mean_scores(
                    [_scores(responses.grid(model, benchmark, each, turn), scores) for each in side for turn in in_span]
                )
                for side in of_side
            ]
            gap = next((side for side in sides if isinstance(side, Gap)), None)
            if gap is not None:
                rows.append(ComparisonRow(*keys, *_gap_cells(gap.reason)))
                continue
            first, second = (side for side in sides if not isinstance(side, Gap))
            difference = paired_difference(first, second, *keys)
            interval = difference.interval
            numbers = (interval.estimate, interval.low, interval.high, difference.p_value, difference.detectable)
            rows.append(ComparisonRow(*keys, *numbers, None))
    return rows


def _scores(grid: Grid | Gap, scores: Scores) -> Floats | Gap:
    return grid if isinstance(grid, Gap) else scores(grid)


def _interval_cells(grids: Sequence[Grid | Gap], scores: Scores, noise: NoiseOf) -> Cells:
    by_problem = mean_scores([_scores(grid, scores) for grid in grids])
    if isinstance(by_problem, Gap):
        return _gap_cells(by_problem.reason)
    noises = [noise(grid) for grid in grids if not isinstance(grid, Gap)]
    return _cells(bootstrap_interval(by_problem), mean_noise(noises))


def _cells(interval: Interval, noise: Noise) -> Cells:
    rerun = rerun_interval(interval.estimate, noise)
    return interval.estimate, interval.low, interval.high, rerun.low, rerun.high, None


def _gap_cells(reason: str) -> Cells:
    return (nan, nan, nan, nan, nan, reason)
