"""The data stage: benchmark tables and training pools."""

from __future__ import annotations

from dataclasses import asdict

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.data.benchmarks import benchmark_rows, question
from stair.data.reading import check_columns, count_rows
from stair.data.training_pool import training_pool as clean
from stair.data.training_pool import wanted_columns
from stair.records.files import write_json
from stair.records.manifest import write_manifest
from stair.records.progress import Progress
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import read_table, write_table


def benchmark(config: Config, paths: RunPaths, key: str) -> None:
    """Writes a benchmark's table."""
    settings = config.benchmarks[key]
    source = paths.dataset_file(config, key)
    output = paths.benchmark(key)
    count = write_table(output, BENCHMARK, benchmark_rows(source, key, settings))
    write_manifest(
        output, stage="data", settings=settings.model_dump(mode="json"), source_file=source.name, problems=count
    )
    print(f"{key}: {count} problems ({len(settings.exclude_ids)} left out)")


def training_pool(config: Config, paths: RunPaths, model: str) -> None:
    """Writes a model's training problems, and what the cleaning found and removed."""
    settings = config.training_pool
    excluded = {
        name: {question(row): row["source_id"] for row in read_table(paths.benchmark(name), BENCHMARK)}
        for name in settings.excluded_for(model)
    }
    source = paths.dataset_file(config, "training_pool")
    check_columns(source, wanted_columns(settings))
    progress = Progress(paths.progress, f"data/{model}", count_rows(source) or 0, "rows")
    pool = clean(source, settings, excluded, progress.set)
    counts, output = pool.counts, paths.training_pool(model)
    write_table(output, TRAINING_POOL, pool.rows)
    write_manifest(
        output, stage="data", settings=settings.model_dump(mode="json"), source_file=source.name, counts=asdict(counts)
    )
    found = paths.cleaning(model)
    write_json(found, {"counts": asdict(counts), "removed": [asdict(one) for one in pool.removed]})
    write_manifest(found, stage="data", settings={})
    print(
        f"{model}: {counts.rows} rows, {counts.records} records of {counts.problems} problems, "
        f"{counts.excluded_problems} problems excluded; {counts.training_problems} for training "
        f"({counts.training_records} records), {counts.validation_problems} for validation"
    )
