"""Scored rows say how long the bank was that they were answered with, and how far it reached beyond the context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stair.config.paths import RunPaths
from stair.records.schemas import BENCHMARK, RESPONSES, SCORED
from stair.records.tables import read_table, write_table
from stair.sessions.positions import KEY, AuxiliaryPositions
from tests.scored import score
from tests.sealed import seal
from tests.sessions.conftest import Finished
from tests.sessions.protocol_cases import PROBLEMS, Rows

BENCH = "math500"


def sealed(paths: RunPaths, condition: str, rows: Rows, context: int | None) -> AuxiliaryPositions | None:
    """A condition's rows and manifest as the seal writes them, for a model of this context; None has no manifest."""
    problems = [
        dict(problem_id=key, source_id=key, problem="What?", reference="1", kind="math", choices=None)
        for key in PROBLEMS
    ]
    write_table(paths.benchmark(BENCH), BENCHMARK, problems)
    path = paths.responses("m", BENCH, condition)
    write_table(path, RESPONSES, rows)
    if context is None:
        return None
    positions = None
    if condition in ("stair", "own_first"):
        positions = AuxiliaryPositions(context)
        for row in rows:
            positions.add(row)
    found = None if positions is None else positions.as_dict()
    seal(paths, "seal_evaluation", path, **{KEY: found})
    return positions


def scored(paths: RunPaths, condition: str) -> list[dict[str, Any]]:
    score(paths, "m", BENCH, condition)
    return read_table(paths.scored("m", BENCH, condition), SCORED)


@pytest.mark.parametrize("condition", ["stair", "own_first"])
def test_a_row_has_its_own_count(finished: Finished, tmp_path: Path, condition: str) -> None:
    """At turn 1 the bank is empty, reused from Vanilla or answered anew: nothing is read there."""
    rows = finished.rows[condition]
    context = max(row["bank_tokens"] for row in rows) - 1
    positions = sealed(RunPaths(tmp_path), condition, rows, context)
    found = scored(RunPaths(tmp_path), condition)
    assert positions is not None and positions.entries > 0
    assert sum(row["beyond_context"] for row in found) == positions.queries + positions.entries
    assert sum(row["beyond_context"] > 0 for row in found) == positions.responses
    assert {(row["bank_tokens"], row["beyond_context"]) for row in found if row["turn"] == 1} == {(0, 0)}
    assert [row["bank_tokens"] for row in found] == [row["bank_tokens"] for row in rows]


@pytest.mark.parametrize("condition", ["vanilla", "native"])
def test_without_a_bank_both_are_null(finished: Finished, tmp_path: Path, condition: str) -> None:
    """Native's first turns are Vanilla's rows."""
    sealed(RunPaths(tmp_path), condition, finished.rows[condition], 60)
    found = scored(RunPaths(tmp_path), condition)
    assert {(row["bank_tokens"], row["beyond_context"]) for row in found} == {(None, None)}


def test_where_no_context_is_recorded_nothing_is_counted(finished: Finished, tmp_path: Path) -> None:
    rows = finished.rows["stair"]
    sealed(RunPaths(tmp_path), "stair", rows, None)
    found = scored(RunPaths(tmp_path), "stair")
    assert [row["bank_tokens"] for row in found] == [row["bank_tokens"] for row in rows]
    assert {row["beyond_context"] for row in found} == {None}
