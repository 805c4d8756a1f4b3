"""Accuracy conditional on the first answer of the session (appendix "Conditioning on the First History Answer")."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from stair.scoring.grid import Gap, Grid, Responses
from stair.scoring.metrics import LATER_TURNS, MEAN
from stair.scoring.tidy import Value
from stair.scoring.transitions import require_equal_seeds

GROUPS = {"T1 correct": True, "T1 wrong": False}


class Count(NamedTuple):
    """Correct responses among all responses of a group."""

    correct: int
    n: int


def history_tables(
    responses: Responses,
    model: str,
    benchmark: str,
    *,
    conditions: Sequence[str] = ("native", "stair"),
    reference: str = "vanilla",
) -> list[Value]:
    """Group size, correct counts and accuracy of each later turn by the correctness of the session's T1 response.

    The reference (Vanilla) answers the same problem, with the same sample and seed, without history. Raises ValueError
    where the conditions do not share their T1 responses' correctness, or matched seeds differ.
    """
    values = []
    for turn in LATER_TURNS:
        for group, was_correct in GROUPS.items():
            counted = {
                condition: _count(responses, model, benchmark, turn, condition, conditions, reference, was_correct)
                for condition in (reference, *conditions)
            }
            values.append(Value(model, benchmark, "", f"T{turn}", group, "n", _size(counted[reference]), "responses"))
            for condition, count in counted.items():
                keys = (model, benchmark, condition, f"T{turn}", group)
                values.append(Value(*keys, "correct", count if isinstance(count, Gap) else count.correct, "responses"))
                values.append(Value(*keys, "accuracy", _accuracy(count), "%"))
    return values


def pooled_history(
    responses: Responses,
    benchmarks: Sequence[str],
    *,
    models: Sequence[str] | None = None,
    conditions: Sequence[str] = ("native", "stair"),
    reference: str = "vanilla",
) -> list[Value]:
    """The same over T2-T4, pooled over models (default: all) and `benchmarks`: sums of counts over sums of sizes."""
    values = []
    for group, was_correct in GROUPS.items():
        pooled: dict[str, Count | Gap] = {
            condition: _pool(
                [
                    _count(responses, model, benchmark, turn, condition, conditions, reference, was_correct)
                    for model in models or responses.models
                    for benchmark in benchmarks
                    for turn in LATER_TURNS
                ]
            )
            for condition in (reference, *conditions)
        }
        values.append(Value("", "", "", MEAN, group, "n", _size(pooled[reference]), "responses"))
        for condition, count in pooled.items():
            values.append(Value("", "", condition, MEAN, group, "accuracy", _accuracy(count), "%"))
    return values


def _count(
    responses: Responses,
    model: str,
    benchmark: str,
    turn: int,
    condition: str,
    conditions: Sequence[str],
    reference: str,
    was_correct: bool,
) -> Count | Gap:
    """The reference is grouped by the sessions of the first of `conditions`, which it has none of itself."""
    follower = conditions[0] if condition == reference else condition
    current = responses.grid(model, benchmark, follower, turn)
    opened_correctly = _opened_correctly(responses, model, benchmark, turn, follower)
    if isinstance(current, Gap):
        return current
    if isinstance(opened_correctly, Gap):
        return opened_correctly
    shared = _opened_correctly(responses, model, benchmark, turn, conditions[0])
    if not isinstance(shared, Gap) and (shared != opened_correctly).any():
        raise ValueError(f"{model}, {benchmark}: {conditions[0]} and {condition} do not share their T1 responses")
    answered = current
    if condition == reference:
        matched = responses.grid(model, benchmark, reference, 1)
        if isinstance(matched, Gap):
            return matched
        require_equal_seeds(matched, current)
        answered = matched
    members = opened_correctly == was_correct
    return Count(int(answered.correct[members].sum()), int(members.sum()))


def _opened_correctly(
    responses: Responses, model: str, benchmark: str, turn: int, condition: str
) -> npt.NDArray[np.bool_] | Gap:
    """For each problem and sample at `turn`: whether T1 of the same session and sample was correct."""
    first = responses.grid(model, benchmark, condition, 1)
    later = responses.grid(model, benchmark, condition, turn)
    if isinstance(first, Gap):
        return first
    if isinstance(later, Gap):
        return later
    return _look_up(first, later)


def _look_up(first: Grid, later: Grid) -> npt.NDArray[np.bool_]:
    result = np.zeros(later.correct.shape, dtype=np.bool_)
    for sample in range(later.correct.shape[1]):
        row = pd.Index(first.sessions[:, sample]).get_indexer(pd.Index(later.sessions[:, sample]))
        if (row < 0).any():
            session = later.sessions[int(np.argmax(row < 0)), sample]
            raise ValueError(f"session {session!r}, sample {sample} has a later turn and no T1 response")
        result[:, sample] = first.correct[row, sample]
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
