"""The data stage: benchmark tables and training pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.data.benchmarks import benchmark_rows, left_out, question
from stair.data.normalisation import identity
from stair.data.reading import check_columns, count_rows
from stair.data.training_pool import training_pool as clean
from stair.data.training_pool import wanted_columns
from stair.grading.integers import same_integer
from stair.hub.revisions import check_contents
from stair.jobs.progress import Progress
from stair.records.files import write_json
from stair.records.manifest import write_manifest
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import read_table, write_table


def benchmark(config: Config, paths: RunPaths, key: str) -> None:
    """Writes a benchmark's table."""
    settings = config.benchmarks[key]
    check_contents(config, paths, f"benchmarks.{key}")
    source = paths.dataset_file(config, key)
    output = paths.benchmark(key)
    rows = benchmark_rows(source, key, settings)
    _check_references(source, rows)
    count = write_table(output, BENCHMARK, rows)
    without = {name: identity(text) for name, text in left_out(source, settings).items()}
    write_manifest(
        output,
        stage="data",
        settings=settings.model_dump(mode="json"),
        source_file=source.name,
        problems=count,
        left_out=without,
    )
    print(f"{key}: {count} problems ({len(settings.exclude_ids)} left out)")


def _check_references(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Holds reference answers to what the scorer can compare with, before anything is generated."""
    for row in rows:
        if row["kind"] == "integer":
            try:
                same_integer(row["reference"], row["reference"])
            except ValueError:
                # Without the answer, which may not be published: an error ends in a log.
                raise ValueError(
                    f"{path}, problem {row['source_id']}: its answer is not an integer; with such answers `kind` must be math"
                ) from None


def training_pool(config: Config, paths: RunPaths, model: str) -> None:
    """Writes a model's training problems, and what the cleaning found and removed."""
    settings = config.training_pool
    excluded = {
        name: {question(row): row["source_id"] for row in read_table(paths.benchmark(name), BENCHMARK)}
        for name in settings.excluded_for(model)
    }
    check_contents(config, paths, "training_pool")
    source = paths.dataset_file(config, "training_pool")
    check_columns(source, wanted_columns(settings))
    progress = Progress(paths.progress, f"data/{model}", count_rows(source), "rows")
    pool = clean(source, settings, excluded, progress.set)
    counts, output = pool.counts, paths.training_pool(model)
    write_table(output, TRAINING_POOL, pool.rows)
    write_manifest(
        output, stage="data", settings=settings.model_dump(mode="json"), source_file=source.name, counts=asdict(counts)
    )
    found = paths.cleaning(model)
    removed = [asdict(one) for one in pool.removed]
    write_json(found, {"counts": asdict(counts), "removed": removed, "unwrapped": pool.unwrapped})
    write_manifest(found, stage="data", settings={})
    print(
        f"{model}: {counts.rows} rows, {counts.records} records of {counts.problems} problems, "
        f"{counts.excluded_problems} problems excluded; {counts.training_problems} for training "
        f"({counts.training_records} records), {counts.validation_problems} for validation"
    )
