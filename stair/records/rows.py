"""Typed rows of the tables that several stages read, for `rows_as`. Most define their table's columns (`schemas.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class BenchmarkProblem(NamedTuple):
    """A row of `BENCHMARK`."""

    problem_id: str  # from the normalised text
    source_id: str  # the data set's own name for the problem
    problem: str  # as the prompt shows it, choices included
    reference: str
    kind: Literal["math", "integer", "choice"]
    choices: list[str] | None  # in the fixed order of A to D


class SourceRecord(NamedTuple):
    """A row of `TRAINING_POOL`."""

    record_id: str  # a distinct (prompt text, answer)
    problem_id: str
    problem: str
    reference: str
    split: str  # train, validation


class Rollout(NamedTuple):
    """A row of `ROLLOUTS` without the response itself: sixty thousand responses do not fit in memory."""

    record_id: str
    problem_id: str
    sample: int
    response_tokens: int


class ScheduledTurn(NamedTuple):
    """A row of `EVALUATION_SESSIONS`."""

    session_id: str
    turn: int
    problem_id: str


class TrainingTurn(NamedTuple):
    """A row of `TRAINING_SESSIONS`."""

    session_id: str
    turn: int
    record_id: str
    problem_id: str
    sample: int
    weight: float  # w_r; zero at T1, which is not supervised


class ReplayHistory(NamedTuple):
    """A row of `REPLAY_HISTORIES`."""

    group: int  # 1 or 2
    history: str  # <session_id>-<sample>
    session_id: str
    sample: int
    sources: list[str]  # the problems of its turns
    prefix_tokens: Sequence[int]  # tokens of the whole prefix, by depth from 1
    block: int  # source block among the group's histories, from 1
    problem_coverage_block: int | None  # among those of the problem coverage; null: not in it


class ReplayProblem(NamedTuple):
    """A row of `REPLAY_PROBLEMS`."""

    group: int
    problem_id: str
    history_coverage: bool  # crossed with all histories of the group, not only those of the problem coverage
    turn_tokens: int  # from the user header to the end of the prompt
    body_tokens: int  # of the user body, over which measurements are averaged
