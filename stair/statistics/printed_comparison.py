"""How far a printed value can be from ours when both runs follow one truth: the replication interval.

The problems are fixed; each run samples its own answers, so the difference of two runs has twice the variance of one. The
paper prints no per-problem rates, so both variances are estimated from our run. Samples of one session are independent and
identically distributed, and so is every sum over a session's turns: the variance of a sum over responses comes from the
spread among the samples of each session, without bias. Pass@k is one draw for each problem; its variance comes from the
distribution of success rates (`sampling_noise.pass_noise`).

`sampling_noise` gives wider intervals, for use without a table of comparisons around them; those here reject one truth
in 5% of comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from stair.core import ConditionName
from stair.statistics.conditioning import CONDITIONS, GROUPS, group_cell
from stair.statistics.grid import Gap, Grid, Responses
from stair.statistics.intervals import LEVEL, ROUNDING, Floats
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE
from stair.statistics.sampling_noise import pass_variances
from stair.statistics.shared_t1_metrics import FULL, NATIVE, TURN, NameOf
from stair.statistics.transitions import TRANSITIONS

Key = tuple[str, str, str, str, str, str]
"""Model, benchmark, condition, turn, group, metric, as in `values.Value`."""


class Spread(NamedTuple):
    """The sampling variance of one run's number, in the number's unit squared, and its degrees of freedom."""

    variance: float
    degrees: float


class Replication(NamedTuple):
    """Our number beside a printed one."""

    low: float
    high: float
    """Where the number of another run of the same truth falls, with the probability `LEVEL`."""
    p_value: float
    """How often two runs of one truth differ by at least as much."""


def replication(reproduced: float, printed: float, spread: Spread, *, rounding: float = 0.0) -> Replication:
    """The replication interval around our number, and the two-sided p-value of a printed one.

    Args:
        reproduced: in the unit of `printed`.
        spread: of our run; the other run is taken to have the same.
        rounding: the printed value's last place, half of which it can be off.
    """
    error = float(np.sqrt(2.0 * spread.variance))
    width = float(stats.t.ppf((1.0 + LEVEL) / 2.0, spread.degrees)) * error + rounding / 2.0
    # What binary floating point adds to a decimal number must not move it across an interval's end.
    distance = max(0.0, abs(reproduced - printed) - rounding / 2.0 - ROUNDING)
    p_value = float(2.0 * stats.t.sf(distance / error, spread.degrees)) if error else float(distance == 0.0)
    return Replication(reproduced - width, reproduced + width, p_value)


def sum_spread(influence: Floats, step: float) -> Spread:
    """The spread of a sum over responses.

    `influence` [clusters, samples] is what each sample of each cluster adds; a cluster is a problem or a session. `step` is what
    one response adds; the variance is at least its square, because answers that all agree in one run may differ in another.
    """
    samples = influence.shape[1]
    if samples < 2:
        raise ValueError("a replication interval needs at least two answers to each problem")
    return _total(samples * influence.var(axis=1, ddof=1), samples - 1.0, step)


def pass_spread(grids: Sequence[Grid]) -> Spread:
    """The spread of the number of passed problems, summed over turns."""
    variances = np.concatenate([pass_variances(grid) for grid in grids])
    return _total(variances, 2.0, 1.0)


def _total(variances: Floats, degrees: float, step: float) -> Spread:
    """The sum of independent variance estimates of so many degrees of freedom each (Satterthwaite)."""
    total, squares = float(variances.sum()), float((variances**2).sum())
    return Spread(max(total, step**2), max(1.0, degrees * total**2 / squares) if squares else 1.0)


def _scaled(spread: Spread, factor: float) -> Spread:
    return Spread(spread.variance * factor**2, spread.degrees)


def _together(spreads: Sequence[Spread]) -> Spread:
    """The spread of a sum or difference of independent numbers."""
    variances = np.array([each.variance for each in spreads])
    degrees = np.array([each.degrees for each in spreads])
    return Spread(float(variances.sum()), float(variances.sum() ** 2 / (variances**2 / degrees).sum()))


# ---------------------------------------------------------------- every number of the tables of response rows


def replication_spreads(
    responses: Responses,
    *,
    pooled: Sequence[str],
    gains: Mapping[str, str],
) -> dict[Key, Spread]:
    """The spreads of the numbers of `metrics`, `conditioning` and `transitions`, by their keys; none where there is a gap.

    `pooled` are the benchmarks of the pooled numbers; `gains` maps conditions to those from which their gains are counted.
    """
    by_key: dict[Key, Spread] = {}
    for model, benchmark in responses.pairs:
        study = _Study(responses, model, benchmark)
        by_key |= study.scores()
        for condition, base in gains.items():
            by_key |= study.gains(condition, base)
        by_key |= study.groups()
        by_key |= study.transitions()
    return by_key | _pooled(responses, pooled)


def shared_t1_spreads(responses: Responses, name_of: NameOf = ConditionName.of_key) -> dict[Key, Spread]:
    """The spreads of the numbers of `shared_t1_metrics.shared_t1_metrics`."""
    by_key: dict[Key, Spread] = {}
    for model, benchmark in responses.pairs:
        study = _Study(responses, model, benchmark)
        families: dict[str, list[str]] = {}
        for condition in responses.conditions(model, benchmark):
            if condition != "t1":
                families.setdefault(name_of(condition).averaged, []).append(condition)
        base = study.sums([NATIVE], [TURN])
        for family, members in families.items():
            by_key |= study.scores_of(family, members, [TURN], f"T{TURN}")
            sums_of_seeds = study.sums(members, [TURN])
            if sums_of_seeds is not None and base is not None:
                key = (model, benchmark, family, f"T{TURN}", "", f"{study.average} minus Native")
                factor = 100.0 / sums_of_seeds.size
                by_key[key] = _scaled(sum_spread(sums_of_seeds / len(members) - base, 1.0), factor)
    return by_key


def truncated_spreads(frame: pd.DataFrame, name_of: NameOf = ConditionName.of_key) -> dict[Key, Spread]:
    """The spreads of `shared_t1_metrics.truncated_banks`: bank lengths vary with the sampled T1 responses."""
    by_key: dict[Key, Spread] = {}
    if "bank_tokens" not in frame.columns:
        return by_key
    rows = frame[(frame["turn"] == TURN) & frame["bank_tokens"].notna()]
    for (model, benchmark, condition), part in rows.groupby(["model", "benchmark", "condition"], sort=False):
        banks = part.pivot(index="problem_id", columns="sample", values="bank_tokens")
        limit = name_of(str(condition)).prefix
        if (limit is None and condition != FULL) or banks.isna().any(axis=None):
            continue
        cut = banks.to_numpy(dtype=np.float64) > (np.inf if limit is None else limit)
        by_key[str(model), str(benchmark), str(condition), f"T{TURN}", "", "truncated"] = sum_spread(
            cut.astype(np.float64), 1.0
        )
    return by_key


class _Study:
    """The responses of one model on one benchmark, clustered by session."""

    def __init__(self, responses: Responses, model: str, benchmark: str) -> None:
        self._responses, self._place = responses, (model, benchmark)
        self.average, self.passed = f"Avg@{responses.samples}", f"Pass@{responses.samples}"
        ids = [g.sessions for key, g in responses.grids.items() if key[:2] == self._place and isinstance(g, Grid)]
        names = dict.fromkeys(name for sessions in ids for name in sessions.ravel())
        self._row_of = {name: row for row, name in enumerate(names)}
        self._rows: dict[int, npt.NDArray[np.int64]] = {}

    def grids(self, conditions: Iterable[str], turns: Iterable[int]) -> list[Grid] | None:
        """The grids of each condition at each turn; None where one is a gap."""
        grids_or_gaps = [self._responses.grid(*self._place, c, turn) for c in conditions for turn in turns]
        grids = [grid for grid in grids_or_gaps if isinstance(grid, Grid)]
        return grids if len(grids) == len(grids_or_gaps) else None

    def by_session(self, grid: Grid, numbers: npt.NDArray[np.generic]) -> Floats:
        """[sessions, samples] the sums of a grid's numbers [problems, samples]."""
        if id(grid) not in self._rows:
            rows = [self._row_of[name] for name in grid.sessions.ravel()]
            self._rows[id(grid)] = np.array(rows).reshape(grid.sessions.shape)
        sums = np.zeros((len(self._row_of), numbers.shape[1]))
        np.add.at(sums, (self._rows[id(grid)], np.arange(numbers.shape[1])), numbers)
        return sums

    def sums(self, conditions: Sequence[str], turns: Sequence[int]) -> Floats | None:
        """[sessions, samples] correct responses of all conditions and turns; None where one is a gap."""
        grids = self.grids(conditions, turns)
        return None if grids is None else np.sum([self.by_session(grid, grid.correct) for grid in grids], axis=0)

    def scores(self) -> dict[Key, Spread]:
        """The spreads of Avg@k and Pass@k at every turn, and of their means over later turns."""
        by_key: dict[Key, Spread] = {}
        for condition in self._responses.conditions(*self._place):
            turns = self._responses.turns(*self._place, condition)
            for turn in turns:
                by_key |= self.scores_of(condition, [condition], [turn], f"T{turn}")
            if max(turns) > 1:
                by_key |= self.scores_of(condition, [condition], LATER_TURNS, MEAN)
        return by_key

    def scores_of(self, condition: str, members: Sequence[str], turns: Sequence[int], span: str) -> dict[Key, Spread]:
        """The spreads of the mean scores of a condition's members over turns."""
        grids, sums = self.grids(members, turns), self.sums(members, turns)
        if grids is None or sums is None:
            return {}
        responses, problems = sum(g.correct.size for g in grids), sum(len(g.problems) for g in grids)
        place = (*self._place, condition, span, "")
        passed = pass_spread(grids)
        if len(members) > 1:
            passed = passed._replace(variance=passed.variance * self._dependence(members, turns))
        return {
            (*place, self.average): _scaled(sum_spread(sums, 1.0), 100.0 / responses),
            (*place, self.passed): _scaled(passed, 100.0 / problems),
        }

    def _dependence(self, members: Sequence[str], turns: Sequence[int]) -> float:
        """How many times the variance of the members' sum is that of independent members: from 1 to their number.

        Test-time seeds share their T1, so their responses are dependent. The correct responses' dependence stands for that of
        passed problems, of which each member has one draw.
        """
        parts = [self.sums([member], turns) for member in members]
        alone = [part.var(axis=1, ddof=1).sum() for part in parts if part is not None]
        together = np.sum([part for part in parts if part is not None], axis=0).var(axis=1, ddof=1).sum()
        return float(np.clip(together / sum(alone), 1.0, len(members))) if sum(alone) else float(len(members))

    def gains(self, condition: str, base: str) -> dict[Key, Spread]:
        """The spreads of a condition's means over later turns minus a base's."""
        sides = [self.sums([each], LATER_TURNS) for each in (condition, base)]
        grids = [self.grids([each], LATER_TURNS) for each in (condition, base)]
        if sides[0] is None or sides[1] is None or grids[0] is None or grids[1] is None:
            return {}
        responses, problems = sum(g.correct.size for g in grids[0]), sum(len(g.problems) for g in grids[0])
        place = (*self._place, condition, MEAN, "")
        passed = _together([pass_spread(grids[0]), pass_spread(grids[1])])
        return {
            (*place, f"{self.average} gain"): _scaled(sum_spread(sides[0] - sides[1], 1.0), 100.0 / responses),
            (*place, f"{self.passed} gain"): _scaled(passed, 100.0 / problems),
        }

    def group(self, turn: int, condition: str, group: str) -> tuple[Floats, Floats] | None:
        """[sessions, samples] members and correct members of a group at a turn; None where there is a gap."""
        cell = group_cell(self._responses, *self._place, turn, condition, group)
        follower = self.grids([CONDITIONS[0] if condition == REFERENCE else condition], [turn])
        if isinstance(cell, Gap) or follower is None:
            return None
        return self.by_session(follower[0], cell.members), self.by_session(follower[0], cell.correct)

    def groups(self) -> dict[Key, Spread]:
        """The spreads of group sizes, correct counts and accuracies at each later turn."""
        by_key: dict[Key, Spread] = {}
        for turn in LATER_TURNS:
            for group in GROUPS:
                for condition in (REFERENCE, *CONDITIONS):
                    sums = self.group(turn, condition, group)
                    if sums is None:
                        continue
                    place = (f"T{turn}", group)
                    if condition == REFERENCE:
                        by_key[*self._place, "", *place, "n"] = sum_spread(sums[0], 1.0)
                    by_key[*self._place, condition, *place, "correct"] = sum_spread(sums[1], 1.0)
                    if sums[0].any():
                        by_key[*self._place, condition, *place, "accuracy"] = ratio_spread(sums[1], sums[0])
        return by_key

    def transitions(self) -> dict[Key, Spread]:
        """The spreads of the counts of changed answers and of the net change.

        Their clusters are problems, because each change pairs answers of two sessions.
        """
        by_key: dict[Key, Spread] = {}
        condition, before = CONDITIONS[0], self.grids([REFERENCE], [1])
        for turn in LATER_TURNS:
            after = self.grids([condition], [turn])
            if before is None or after is None:
                continue
            was, became = before[0].correct, after[0].correct
            place = (*self._place, condition, f"T{turn}", "")
            for name, first, second in TRANSITIONS:
                by_key[*place, name] = sum_spread(1.0 * ((was == first) & (became == second)), 1.0)
            by_key[*place, "net change"] = _scaled(sum_spread(1.0 * became - 1.0 * was, 1.0), 100.0 / was.size)
        return by_key


def ratio_spread(correct: Floats, members: Floats) -> Spread:
    """The spread of the percentage of members that are correct, where both counts vary: [clusters, samples] each."""
    size = float(members.sum())
    return _scaled(sum_spread(correct - members * (correct.sum() / size), 1.0), 100.0 / size)


def _pooled(responses: Responses, benchmarks: Sequence[str]) -> dict[Key, Spread]:
    """The spreads of the numbers of `conditioning.pooled_history`."""
    by_key: dict[Key, Spread] = {}
    studies = [_Study(responses, model, benchmark) for model in responses.models for benchmark in benchmarks]
    for group in GROUPS:
        for condition in (REFERENCE, *CONDITIONS):
            parts = [[study.group(turn, condition, group) for turn in LATER_TURNS] for study in studies]
            if not parts or any(cell is None for part in parts for cell in part):
                continue
            members, correct = (
                np.concatenate([np.sum([cell[side] for cell in part if cell is not None], axis=0) for part in parts])
                for side in (0, 1)
            )
            if condition == REFERENCE:
                by_key["", "", "", MEAN, group, "n"] = sum_spread(members, 1.0)
            if members.any():
                by_key["", "", condition, MEAN, group, "accuracy"] = ratio_spread(correct, members)
    return by_key
