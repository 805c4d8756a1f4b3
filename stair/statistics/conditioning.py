"""Accuracy conditional on the first answer of the session (appendix A.5)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stair.statistics.grid import Gap, Grid, Responses
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE
from stair.statistics.transitions import require_equal_seeds
from stair.statistics.values import Value

Bools = npt.NDArray[np.bool_]

GROUPS = {"T1 correct": True, "T1 wrong": False}
CONDITIONS = ("native", "stair")
"""The conditions of the tables, which share their T1 responses."""


class GroupCell(NamedTuple):
    """The responses of one group: which they are, and which of them are correct; both [problems, samples]."""

    members: Bools
    correct: Bools

    @property
    def n(self) -> int:
        """Responses of the group."""
        return int(self.members.sum())

    @property
    def correct_count(self) -> int:
        """Correct responses of the group."""
        return int(self.correct.sum())


class Count(NamedTuple):
    """Correct responses among all responses of a group."""

    correct: int
    n: int


def history_tables(responses: Responses, model: str, benchmark: str) -> list[Value]:
    """Group size, correct counts and accuracy of each later turn by the correctness of the session's T1 response.

    The reference (Vanilla) answers the same problem, with the same sample and seed, without history.

    Raises:
        ValueError: the conditions do not share their T1 responses' correctness, or matched seeds differ.
    """
    values = []
    for turn in LATER_TURNS:
        for group in GROUPS:
            counted = {
                condition: _count(group_cell(responses, model, benchmark, turn, condition, group))
                for condition in (REFERENCE, *CONDITIONS)
            }
            values.append(Value(model, benchmark, "", f"T{turn}", group, "n", _size(counted[REFERENCE]), "responses"))
            for condition, count in counted.items():
                keys = (model, benchmark, condition, f"T{turn}", group)
                values.append(Value(*keys, "correct", count if isinstance(count, Gap) else count.correct, "responses"))
                values.append(Value(*keys, "accuracy", _accuracy(count), "%"))
    return values


def pooled_history(responses: Responses, benchmarks: Sequence[str]) -> list[Value]:
    """The same over T2-T4, pooled over all models and `benchmarks`: sums of counts over sums of sizes."""
    values = []
    for group in GROUPS:
        pooled: dict[str, Count | Gap] = {
            condition: _pool(
                [
                    _count(group_cell(responses, model, benchmark, turn, condition, group))
                    for model in responses.models
                    for benchmark in benchmarks
                    for turn in LATER_TURNS
                ]
            )
            for condition in (REFERENCE, *CONDITIONS)
        }
        values.append(Value("", "", "", MEAN, group, "n", _size(pooled[REFERENCE]), "responses"))
        for condition, count in pooled.items():
            values.append(Value("", "", condition, MEAN, group, "accuracy", _accuracy(count), "%"))
    return values


def group_cell(
    responses: Responses,
    model: str,
    benchmark: str,
    turn: int,
    condition: str,
    group: str,
    conditions: Sequence[str] = CONDITIONS,
) -> GroupCell | Gap:
    """One cell of the tables, or the first gap of its grids. Raises ValueError as `history_tables`.

    The reference (Vanilla) is grouped by the sessions of the first of `conditions`: its response to the same problem and
    sample is a member where that condition's response is.
    """
    follower = conditions[0] if condition == REFERENCE else condition
    current = responses.grid(model, benchmark, follower, turn)
    opened_correctly = _opened_correctly(responses, model, benchmark, turn, follower)
    if isinstance(current, Gap):
        return current
    if isinstance(opened_correctly, Gap):
        return opened_correctly
    if follower == conditions[0]:
        shared: Bools | Gap = opened_correctly
    else:
        shared = _opened_correctly(responses, model, benchmark, turn, conditions[0])
    if not isinstance(shared, Gap) and (shared != opened_correctly).any():
        raise ValueError(f"{model}, {benchmark}: {conditions[0]} and {condition} do not share their T1 responses")
    answered = current
    if condition == REFERENCE:
        matched = responses.grid(model, benchmark, REFERENCE, 1)
        if isinstance(matched, Gap):
            return matched
        require_equal_seeds(matched, current)
        answered = matched
    members = opened_correctly == GROUPS[group]
    return GroupCell(members, answered.correct & members)


def _count(cell: GroupCell | Gap) -> Count | Gap:
    return cell if isinstance(cell, Gap) else Count(cell.correct_count, cell.n)


def _opened_correctly(responses: Responses, model: str, benchmark: str, turn: int, condition: str) -> Bools | Gap:
    """For each problem and sample at `turn`: whether T1 of the same session and sample was correct."""
    first = responses.grid(model, benchmark, condition, 1)
    later = responses.grid(model, benchmark, condition, turn)
    if isinstance(first, Gap):
        return first
    if isinstance(later, Gap):
        return later
    return _look_up(first, later)


def _look_up(first: Grid, later: Grid) -> Bools:
    result = np.zeros(later.correct.shape, dtype=np.bool_)
    # A schedule has all samples of a problem in one session, so one look-up serves them.
    alike = all((grid.sessions == grid.sessions[:, :1]).all() for grid in (first, later))
    for sample in range(1 if alike else later.correct.shape[1]):
        # A dictionary: an index of pandas takes ten times as long for a few hundred sessions.
        row_of = {session: row for row, session in enumerate(first.sessions[:, sample])}
        assert len(row_of) == len(first.sessions), "a session has two T1 responses"
        absent = [session for session in later.sessions[:, sample] if session not in row_of]
        if absent:
            raise ValueError(f"session {absent[0]!r}, sample {sample} has a later turn and no T1 response")
        rows, samples = [row_of[session] for session in later.sessions[:, sample]], slice(None) if alike else sample
        result[:, samples] = first.correct[rows, samples]
    return result


def _pool(counts: Sequence[Count | Gap]) -> Count | Gap:
    correct = n = 0
    for count in counts:
        if isinstance(count, Gap):
            return count
        correct += count.correct
        n += count.n
    return Count(correct, n)


def _size(count: Count | Gap) -> int | Gap:
    return count if isinstance(count, Gap) else count.n


def _accuracy(count: Count | Gap) -> float | Gap:
    if isinstance(count, Gap):
        return count
    return 100.0 * count.correct / count.n if count.n else Gap("no response in this group")
