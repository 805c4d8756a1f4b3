"""How many problems, records, sessions and responses a run has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stair.config.datasets import Dataset
from stair.pipeline.jobs import settings_of
from stair.pipeline.planning.assumptions import assumed
from stair.pipeline.run import Run
from stair.records.manifest import changed_settings, manifest_path, read_manifest


def problems_of(run: Run, benchmark: str) -> int:
    """Problems of a benchmark: of its table where it was made, else by the configuration."""
    item = run.config.benchmarks[benchmark]
    if (count := _current_rows(run, run.paths.benchmark(benchmark), "benchmark", benchmark=benchmark)) is not None:
        return count
    if item.subset is not None:
        return item.subset.problems
    rows = item.tiny or item.rows or _file_rows(item)
    return rows - len(item.exclude_ids)


def records_of(run: Run, model: str) -> tuple[int, int]:
    """Source records of a model's training pool: for training, and for validation."""
    pool = run.config.training_pool
    held_out = pool.validation_problems
    count = _current_rows(run, run.paths.training_pool(model), "training_pool", model=model)
    if count is not None:
        return max(0, count - held_out), held_out
    if pool.tiny is not None:
        return pool.tiny, held_out
    if pool.subset is not None:
        return max(0, pool.subset.problems - held_out), held_out
    if pool.repository is not None:
        return int(assumed("pool_records")), held_out
    return max(0, _file_rows(pool) - held_out), held_out


def updates_of(run: Run, model: str) -> int:
    """Updates of a controller's training."""
    training = run.config.training
    return training.epochs * -(-records_of(run, model)[0] // training.sessions_per_update)


def _current_rows(run: Run, table: Path, rule: str, **wildcards: str) -> int | None:
    """Rows of a cleaned table that was made under the current settings."""
    try:
        made_under = read_manifest(manifest_path(table)).settings
    except (OSError, ValueError):
        return None
    return None if changed_settings(made_under, settings_of(run.config, rule, wildcards)) else _table_rows(table)


def _file_rows(item: Dataset) -> int:
    path = Path(item.path or "")
    if path.suffix == ".jsonl" and path.is_file():
        with open(path, "rb") as file:
            return sum(bool(line.strip()) for line in file)
    return _table_rows(path) or int(assumed("file_rows"))


def _table_rows(path: Path) -> int | None:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowInvalid):
        return None
