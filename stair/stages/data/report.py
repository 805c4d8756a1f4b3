"""The data report: the counts and reasons of each cleaning step beside the paper's, and possible duplicates that remain."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.models.hub import hub_sources
from stair.records.files import write_json, write_text
from stair.records.manifest import manifest_path, recorded_fact
from stair.records.rows import BenchmarkProblem, SourceRecord
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import rows_as
from stair.records.text_tables import csv_table
from stair.stages.data.benchmarks import question
from stair.stages.data.cleaning_steps import Step, benchmark_steps, model_steps
from stair.stages.data.example_texts import ExampleTexts
from stair.stages.data.near_duplicates import CONTAINMENT, JACCARD, NearDuplicate, near_duplicates
from stair.stages.data.problem_texts import identity
from stair.stages.data.report_page import Pools, Row, page


def write_report(config: Config, paths: RunPaths) -> None:
    """Writes data/report.md, report.json, counts.csv and near_duplicates.csv."""
    benchmarks = {key: [*rows_as(paths.benchmark(key), BENCHMARK, BenchmarkProblem)] for key in config.benchmarks}
    pools = {model: [*rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord)] for model in config.models}
    cleaning = {model: json.loads(paths.cleaning(model).read_text(encoding="utf-8")) for model in config.models}
    questions = {(key, row.source_id): question(row) for key, rows in benchmarks.items() for row in rows}
    problems = {record.problem_id: record.problem for pool in pools.values() for record in reversed(pool)}
    steps = [step for model in config.models for step in model_steps(model, cleaning[model]["counts"])]
    steps += benchmark_steps(config, benchmarks)
    near = near_duplicates(problems, questions)
    report = {
        "run": config.run,
        "sources": _sources(config, paths),
        "counts": [step._asdict() for step in steps],
        "removed": {model: cleaning[model]["removed"] for model in config.models},
        "left_in_pool": {model: _questions_in(pools[model], questions) for model in config.models},
        "left_out_in_pool": {
            key: _left_out_problems(paths, key, pools) for key, item in config.benchmarks.items() if item.exclude_ids
        },
        "without_fixed_texts": {model: cleaning[model]["unwrapped"] for model in config.models},
        "near_duplicates": {"jaccard": JACCARD, "containment": CONTAINMENT, "pairs": len(near)},
        "choice_letters": {
            key: dict(Counter(row.reference for row in rows))
            for key, rows in benchmarks.items()
            if config.benchmarks[key].kind == "choice"
        },
    }
    texts = ExampleTexts(config, questions, problems)
    write_json(paths.data_report(".json"), report)
    write_text(paths.data_counts, csv_table(Step._fields, steps))
    write_text(paths.near_duplicates, csv_table(NearDuplicate._fields, near))
    write_text(paths.data_report(".md"), page(config, report, steps, near, texts, pools))
    print(f"data report: {paths.data_report('.md')}, {len(near)} near-duplicates")


def _questions_in(pool: Sequence[SourceRecord], questions: Mapping[tuple[str, str], str]) -> dict[str, list[str]]:
    """The benchmark questions in a pool: those of benchmarks that are not excluded for this model."""
    problems = {record.problem_id for record in pool}
    remaining: dict[str, list[str]] = {}
    for (benchmark, source), text in questions.items():
        if identity(text) in problems:
            remaining.setdefault(benchmark, []).append(source)
    return remaining


def _left_out_problems(paths: RunPaths, benchmark: str, pools: Pools) -> Row:
    """The problems that a benchmark leaves out, and those of them in each model's pool."""
    problems: dict[str, str] = recorded_fact(manifest_path(paths.benchmark(benchmark)), "left_out")
    in_pool = {model: {record.problem_id for record in pool} for model, pool in pools.items()}
    sources = {model: [source for source, one in problems.items() if one in in_pool[model]] for model in pools}
    return dict(left_out=list(problems), in_pool=sources)


def _sources(config: Config, paths: RunPaths) -> list[Row]:
    hub = {source.name: source for source in hub_sources(config, paths)}
    sets = [("training_pool", config.training_pool), *((f"benchmarks.{k}", b) for k, b in config.benchmarks.items())]
    return [
        dict(
            name=name,
            source=item.repository or item.path or f"generated, {item.tiny} problems",
            file=item.file if item.repository else None,
            commit=hub[name].commit() if name in hub else None,
            publish_text=item.publish_text,
        )
        for name, item in sets
    ]
