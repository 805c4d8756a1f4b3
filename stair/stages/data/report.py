"""The data report: the counts of each cleaning step beside the paper's, and what training and evaluation have in common.

It quotes no text, because some may not be published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.models.hub import hub_sources
from stair.records.files import write_json, write_text
from stair.records.manifest import manifest_path, recorded_fact
from stair.records.rows import BenchmarkProblem, SourceRecord
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import rows_as
from stair.records.text_tables import csv_table, markdown_table
from stair.stages.data.benchmarks import question
from stair.stages.data.cleaning_steps import Step, benchmark_steps, model_steps
from stair.stages.data.near_duplicates import CONTAINMENT, JACCARD, NearDuplicate, near_duplicates
from stair.stages.data.problem_texts import identity

_NEAREST = 20


def write_report(config: Config, paths: RunPaths) -> None:
    """Writes data/report.md, report.json, counts.csv and near_duplicates.csv."""
    benchmarks = {key: [*rows_as(paths.benchmark(key), BENCHMARK, BenchmarkProblem)] for key in config.benchmarks}
    pools = {model: [*rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord)] for model in config.models}
    cleaning = {model: json.loads(paths.cleaning(model).read_text(encoding="utf-8")) for model in config.models}
    steps = [step for model in config.models for step in model_steps(model, cleaning[model]["counts"])]
    steps += benchmark_steps(config, benchmarks)
    questions = {(key, row.source_id): question(row) for key, rows in benchmarks.items() for row in rows}
    problems = {record.problem_id: record.problem for pool in pools.values() for record in reversed(pool)}
    near = near_duplicates(problems, questions)
    removed = {model: cleaning[model]["removed"] for model in config.models}
    overlaps = [
        overlap
        for model, pool in pools.items()
        for overlap in _overlaps(paths, model, {record.problem_id for record in pool}, removed[model], benchmarks)
    ]
    sources = _sources(config, paths)
    report = {
        "run": config.run,
        "sources": sources,
        "counts": [step._asdict() for step in steps],
        "removed": removed,
        "overlaps": overlaps,
        "near_duplicates": {"jaccard": JACCARD, "containment": CONTAINMENT, "pairs": len(near)},
    }
    write_json(paths.data_report(".json"), report)
    write_text(paths.data_counts, csv_table(Step._fields, steps))
    write_text(paths.near_duplicates, csv_table(NearDuplicate._fields, near))
    write_text(paths.data_report(".md"), _page(config, sources, steps, overlaps, near))
    print(f"data report: {paths.data_report('.md')}, {len(near)} near-duplicates")


def _overlaps(
    paths: RunPaths,
    model: str,
    pool: set[str],
    removed: Sequence[Mapping[str, Any]],
    benchmarks: Mapping[str, Sequence[BenchmarkProblem]],
) -> Iterator[dict[str, Any]]:
    """What a model's pool has in common with each benchmark, by normalised text.

    The paper found the AMC23 problems that evaluation leaves out in every pool: its only check of the normalised text.
    """
    for key, rows in benchmarks.items():
        left_out = recorded_fact(manifest_path(paths.benchmark(key)), "left_out")
        yield dict(
            model=model,
            benchmark=key,
            removed_records=sum(row["benchmark"] == key for row in removed),
            asked_in_pool=[row.source_id for row in rows if identity(question(row)) in pool],
            left_out=list(left_out),
            left_out_in_pool=[source for source, problem in left_out.items() if problem in pool],
        )


def _sources(config: Config, paths: RunPaths) -> list[dict[str, Any]]:
    hub = {source.name: source for source in hub_sources(config, paths)}
    sets = [("training_pool", config.training_pool), *((f"benchmarks.{k}", b) for k, b in config.benchmarks.items())]
    return [
        dict(
            name=name,
            source=item.repository or item.path or f"generated, {item.tiny} problems",
            file=item.file if item.repository else None,
            commit=hub[name].commit() if name in hub else None,
        )
        for name, item in sets
    ]


def _page(
    config: Config,
    sources: Sequence[Mapping[str, Any]],
    steps: Sequence[Step],
    overlaps: Sequence[Mapping[str, Any]],
    near: Sequence[NearDuplicate],
) -> str:
    """The text of report.md."""
    rows = [[f"{value:,}" if isinstance(value, int) else value or "" for value in step] for step in steps]
    nearest = [
        (pair.problem_id, f"{pair.benchmark} {pair.source_id}", f"{pair.jaccard:.2f}", f"{pair.containment:.2f}")
        for pair in near[:_NEAREST]
    ]
    lists = ("asked_in_pool", "left_out", "left_out_in_pool")
    parts = [
        f"# Data of the run {config.run}",
        *([config.note] if config.note else []),
        "## Sources",
        _table(("data set", "source", "file", "commit"), [[value or "" for value in row.values()] for row in sources]),
        "## What each step left",
        _table(("model", "step", "rows", "records", "problems", "the paper", "why"), rows),
        "## Training pools and benchmarks",
        "By normalised text: source records that were removed from a model's pool, questions of evaluation that stay in "
        "it, and problems that evaluation leaves out. report.json has the removed records.",
        _table(
            ("model", "benchmark", "removed", "asked, in the pool", "left out", "left out, in the pool"),
            [
                (row["model"], row["benchmark"], str(row["removed_records"]), *(_ids(row[name]) for name in lists))
                for row in overlaps
            ],
        ),
        "## Near-duplicates",
        f"Pairs of a training problem and a question that are not equal by normalised text, but share at least {JACCARD:.0%} of "
        f"their five-character shingles, or hold {CONTAINMENT:.0%} of the question's. They are not removed: the paper removes "
        f"equal ones only. {len(near)} pairs; near_duplicates.csv has all.",
        *([_table(("problem", "question", "Jaccard", "containment"), nearest)] if near else []),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(markdown_table(head, rows))


def _ids(ids: Sequence[str]) -> str:
    """How many, and the first of them."""
    return f"{len(ids)}: {', '.join(ids[:_NEAREST])}{', …' if len(ids) > _NEAREST else ''}" if ids else "0"
