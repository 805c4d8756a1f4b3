"""Rows of tables with typed fields, each the columns of its schema (`records/schemas.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS
from stair.records.tables import read_table


class BenchmarkRow(NamedTuple):
    """A problem of a benchmark, with its reference."""

    problem_id: str
    source_id: str
    problem: str
    reference: str
    kind: Literal["math", "integer", "choice"]
    choices: list[str] | None


class SessionRow(NamedTuple):
    """A turn of an evaluation session."""

    session_id: str
    turn: int
    problem_id: str


def read_benchmark(path: Path) -> list[BenchmarkRow]:
    """A benchmark's problems. Raises as `read_table` does."""
    return [BenchmarkRow(**row) for row in read_table(path, BENCHMARK)]


def read_sessions(path: Path) -> list[SessionRow]:
    """The turns of a benchmark's evaluation sessions. Raises as `read_table` does."""
    return [SessionRow(**row) for row in read_table(path, EVALUATION_SESSIONS)]
