"""The steps of the cleaning with their counts (the rows of counts.csv), and the paper's counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stair.config.model import Config
from stair.records.rows import BenchmarkProblem

PROBLEMS = {"training_problems": 14_806, "validation_problems": 128, "problems_left": 14_934}
"""The counts of each model (appendix B.4)."""

UPDATES = {"qwen3-4b-instruct": 1851, "qwen3.5-4b": 1941, "qwen3.5-9b": 1940}
"""Scheduled updates of eight sessions by model (appendix C.1)."""

BENCHMARK_PROBLEMS = {"math500": 500, "aime2025": 30, "amc23": 34, "gpqa_diamond": 198}
"""Problems that are evaluated (appendix C.3)."""

_SESSIONS = 8


class Step(NamedTuple):
    """A step of the cleaning, with the rows, records and problems that it removed or left; a row of counts.csv."""

    model: str
    step: str
    rows: int | None
    records: int | None
    problems: int | None
    paper: str | None
    why: str


def model_steps(model: str, counts: Mapping[str, Any]) -> list[Step]:
    """The steps of a model's cleaning, with their removals and remainders."""
    records, problems = counts["records"], counts["problems"]
    rows = [
        Step(model, "read", counts["rows"], None, None, None, "rows of the data set's file"),
        Step(
            model, "exact duplicates removed", counts["exact_duplicates"], None, None, None,
            f"same prompt and answer; a record stands {counts['fewest_copies']} to {counts['most_copies']} times",
        ),
        Step(model, "source records", counts["rows"], records, problems, None, "distinct (prompt text, answer)"),
    ]  # fmt: skip
    for benchmark, number in counts["excluded_by"].items():
        rows.append(
            Step(
                model, f"excluded: {benchmark}", counts["excluded_rows_by"][benchmark],
                counts["excluded_records_by"][benchmark], number, None,
                "normalised text equals a question of the benchmark",
            )
        )  # fmt: skip
    rows += [
        Step(
            model, "excluded in all", counts["excluded_rows"], counts["excluded_records"], counts["excluded_problems"], None,
            "a problem can stand in several benchmarks",
        ),
        Step(
            model, "left", counts["rows"] - counts["excluded_rows"], records - counts["excluded_records"],
            problems - counts["excluded_problems"],
            f"{PROBLEMS['problems_left']:,} problems", "rows: with all copies of the records",
        ),
        Step(
            model, "validation", counts["validation_rows"], counts["validation_records"], counts["validation_problems"],
            f"{PROBLEMS['validation_problems']:,} problems", "first by hash, with all records of a problem",
        ),
        Step(
            model, "training", counts["training_rows"], counts["training_records"], counts["training_problems"],
            _paper_training(model), "",
        ),
        Step(
            model, "problems with several records", None, None, counts["problems_with_many_records"], None,
            "of all source records, before exclusion",
        ),
        Step(
            model, "problems with several answers", None, None, counts["problems_with_many_answers"], None,
            "of all source records, before exclusion; answers as they are spelt",
        ),
        Step(
            model, "without the fixed texts", counts["rows_without_fixed_texts"], None, None, None,
            "rows whose prompt lacks training_pool.strip_prefixes or strip_suffixes; kept",
        ),
    ]  # fmt: skip
    return rows


def _paper_training(model: str) -> str:
    records = training_records(model)
    problems = f"{PROBLEMS['training_problems']:,} problems"
    return f"{problems}; {records} records by its update count" if records else problems


def benchmark_steps(config: Config, benchmarks: Mapping[str, Sequence[BenchmarkProblem]]) -> list[Step]:
    """A row for each benchmark: its problems, and those that evaluation leaves out."""
    return [
        Step(
            "", f"benchmark {key}", len(rows) + len(config.benchmarks[key].exclude_ids), None, len(rows),
            f"{BENCHMARK_PROBLEMS[key]} problems" if key in BENCHMARK_PROBLEMS else None,
            f"left out: {', '.join(config.benchmarks[key].exclude_ids)}" if config.benchmarks[key].exclude_ids else "",
        )
        for key, rows in benchmarks.items()
    ]  # fmt: skip


def training_records(model: str) -> str | None:
    """The number of training records that a model's update count implies: a session for each record, eight sessions an update."""
    if model not in UPDATES:
        return None
    most = _SESSIONS * UPDATES[model]
    return f"{max(most - _SESSIONS + 1, PROBLEMS['training_problems']):,} to {most:,}"
