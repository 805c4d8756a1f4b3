"""The sessions stage: training, validation and evaluation sessions."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.manifest import write_manifest
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.tables import read_table, write_table
from stair.sessions.evaluation import evaluation_sessions
from stair.sessions.training import complete_records, training_sessions


def training(config: Config, paths: RunPaths, model: str) -> None:
    """Writes a model's training and validation sessions."""
    split = {row["record_id"]: row["split"] for row in read_table(paths.training_pool(model), TRAINING_POOL)}
    records, dropped = complete_records(read_table(paths.rollouts(model), ROLLOUTS))
    for name, output in (("train", paths.training_sessions(model)), ("validation", paths.validation_sessions(model))):
        part = {record: rows for record, rows in records.items() if split[record] == name}
        rows = training_sessions(part, config.sessions.seed, name, model) if part else []
        write_table(output, TRAINING_SESSIONS, rows)
        lost = [record for record in dropped if split[record] == name]
        settings = {"seed": config.sessions.seed, "split": name}
        write_manifest(output, stage="sessions", settings=settings, sessions=len(rows) // 4, dropped_records=lost)
        print(f"{model}: {len(rows) // 4} {name} sessions, {len(lost)} records dropped")


def evaluation(config: Config, paths: RunPaths, benchmark: str) -> None:
    """Writes a benchmark's schedule."""
    problems = [row["problem_id"] for row in read_table(paths.benchmark(benchmark), BENCHMARK, ["problem_id"])]
    output = paths.evaluation_sessions(benchmark)
    write_table(output, EVALUATION_SESSIONS, evaluation_sessions(problems, benchmark, config.sessions.seed))
    write_manifest(output, stage="sessions", settings={"seed": config.sessions.seed}, sessions=len(problems))
    print(f"{benchmark}: {len(problems)} sessions")
