"""Typed rows of the tables that several stages read, for `rows_as`; a field is a column of the schema of its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class BenchmarkProblem(NamedTuple):
    """A row of `BENCHMARK`."""

    problem_id: str
    source_id: str
    problem: str
    reference: str
    kind: Literal["math", "integer", "choice"]
    choices: list[str] | None


class SourceRecord(NamedTuple):
    """A row of `TRAINING_POOL`."""

    record_id: str
    problem_id: str
    problem: str
    reference: str
    split: str


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
    weight: float


class ReplayHistory(NamedTuple):
    """A row of `REPLAY_HISTORIES`."""

    group: int
    history: str
    session_id: str
    sample: int
    sources: list[str]
    prefix_tokens: Sequence[int]
    block: int
    problem_coverage_block: int | None


class ReplayProblem(NamedTuple):
    """A row of `REPLAY_PROBLEMS` without its numbers of tokens."""

    group: int
    problem_id: str
    history_coverage: bool


class ReplayCell(NamedTuple):
    """A row of `REPLAY_CELLS` without its prefix."""

    group: int
    history: str | None
    depth: int
    problem_id: str
    history_coverage: bool
    problem_coverage: bool
    file: str
    row: int
    sha256: str
