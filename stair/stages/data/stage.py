"""The data stage: benchmark tables and training pools."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.models.hub import check_fetched
from stair.records.files import write_json
from stair.records.progress import Progress
from stair.records.rows import BenchmarkProblem
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import rows_as, write_table
from stair.stages.data.benchmarks import left_out, question, read_benchmark
from stair.stages.data.problem_texts import identity
from stair.stages.data.reading import check_columns, count_rows
from stair.stages.data.training_pool import clean_pool, wanted_columns


def benchmark(config: Config, paths: RunPaths, benchmark: str) -> dict[str, Any]:
    """Writes a benchmark's table; returns facts for the manifest."""
    settings = config.benchmarks[benchmark]
    check_fetched(config, paths, f"benchmarks.{benchmark}")
    source = paths.dataset_file(config, benchmark)
    output = paths.benchmark(benchmark)
    problems = read_benchmark(source, benchmark, settings)
    count = write_table(output, BENCHMARK, (problem._asdict() for problem in problems))
    excluded = {name: identity(text) for name, text in left_out(source, settings).items()}
    print(f"{benchmark}: {count} problems ({len(settings.exclude_ids)} left out)")
    return {"source_file": source.name, "problems": count, "left_out": excluded}


def training_pool(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Writes a model's training problems, and the counts and removed records of the cleaning; returns facts for the manifest."""
    settings = config.training_pool
    excluded = {
        name: {question(row): row.source_id for row in rows_as(paths.benchmark(name), BENCHMARK, BenchmarkProblem)}
        for name in settings.excluded_for(model)
    }
    check_fetched(config, paths, "training_pool")
    source = paths.dataset_file(config, "training_pool")
    check_columns(source, wanted_columns(settings))
    progress = Progress(paths.progress, f"data/{model}", count_rows(source), "rows")
    pool = clean_pool(source, settings, excluded, progress.set)
    counts, output = pool.counts, paths.training_pool(model)
    write_table(output, TRAINING_POOL, (record._asdict() for record in pool.records))
    report = paths.cleaning(model)
    removed = [asdict(one) for one in pool.removed]
    write_json(report, {"counts": asdict(counts), "removed": removed, "unwrapped": pool.unwrapped})
    print(
        f"{model}: {counts.rows} rows, {counts.records} records of {counts.problems} problems, "
        f"{counts.excluded_problems} problems excluded; {counts.training_problems} for training "
        f"({counts.training_records} records), {counts.validation_problems} for validation"
    )
    return {"source_file": source.name, "counts": asdict(counts)}
