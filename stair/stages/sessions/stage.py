"""The sessions stage: training, validation and evaluation sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import TURNS
from stair.records.files import write_text
from stair.records.rows import BenchmarkProblem, Rollout, SourceRecord
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.tables import rows_as, write_table
from stair.records.text_tables import csv_table
from stair.stages.sessions.evaluation_sessions import evaluation_sessions
from stair.stages.sessions.training_sessions import Dropped, complete_records, training_sessions

_SHOWN = 3


def training(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Writes a model's training and validation sessions, and the list of dropped records; returns facts for the manifest."""
    facts: dict[str, Any] = {"sessions": {}, "dropped_records": {}}
    pool = {record.record_id: record for record in rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord)}
    records, dropped = complete_records(rows_as(paths.rollouts(model), ROLLOUTS, Rollout), pool)
    unknown = sorted({*records, *(record.record_id for record in dropped)} - pool.keys())
    if unknown:
        raise ValueError(f"{paths.rollouts(model)} has responses to {unknown[0]}, which is not in the training pool")
    for record, responses in records.items():
        for response in responses:
            if response.problem_id != (problem := pool[record].problem_id):
                raise ValueError(
                    f"{paths.rollouts(model)} calls the problem of record {record} {response.problem_id}, "
                    f"{paths.training_pool(model)} calls it {problem}; seal the rollouts again"
                )
    for name, output in (("train", paths.training_sessions(model)), ("validation", paths.validation_sessions(model))):
        part = {record: rows for record, rows in records.items() if pool[record].split == name}
        dropped_here = [one for one in dropped if pool[one.record_id].split == name]
        try:
            if dropped_here and not part:
                raise ValueError("no record has four responses")
            rows = training_sessions(part, config.sessions.seed, name, model) if part else []
        except ValueError as error:
            raise ValueError(
                f"{model}, {name} sessions of {len(part)} records: {error}{_dropped_text(dropped_here)}"
            ) from None
        write_table(output, TRAINING_SESSIONS, rows)
        ids = [one.record_id for one in dropped_here]
        facts["sessions"][name], facts["dropped_records"][name] = len(rows) // TURNS, ids
        print(f"{model}: {len(rows) // TURNS} {name} sessions, {len(ids)} records dropped")
    _write_dropped(paths.dropped_records(model), dropped, pool)
    return facts


def _dropped_text(dropped: Sequence[Dropped]) -> str:
    if not dropped:
        return ""
    some = ", ".join(f"{one.record_id} ({one.reason})" for one in dropped[:_SHOWN])
    return f"; {len(dropped)} records were dropped before: {some}{', …' if len(dropped) > _SHOWN else ''}"


def _write_dropped(path: Path, dropped: Sequence[Dropped], pool: Mapping[str, SourceRecord]) -> None:
    rows = []
    for one in dropped:
        record = pool[one.record_id]
        rows.append((one.record_id, record.problem_id, record.split, len(one.samples), one.empty, one.reason))
    write_text(path, csv_table(("record_id", "problem_id", "split", "responses", "empty", "reason"), rows))


def evaluation(config: Config, paths: RunPaths, benchmark: str) -> dict[str, Any]:
    """Writes a benchmark's schedule; returns facts for the manifest."""
    problems = [row.problem_id for row in rows_as(paths.benchmark(benchmark), BENCHMARK, BenchmarkProblem)]
    output = paths.evaluation_sessions(benchmark)
    write_table(output, EVALUATION_SESSIONS, evaluation_sessions(problems, benchmark, config.sessions.seed))
    print(f"{benchmark}: {len(problems)} sessions")
    return {"sessions": len(problems)}
