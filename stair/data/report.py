"""The data report: the counts and reasons of each cleaning step beside the paper's, and possible duplicates that remain."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.data.benchmarks import question
from stair.data.choices import LETTERS
from stair.data.near_duplicates import CONTAINMENT, JACCARD, NearDuplicate, near_duplicates, overlapping
from stair.data.normalisation import identity
from stair.data.paper_counts import BENCHMARK_PROBLEMS, LEFT_OUT, PROBLEMS, training_records
from stair.data.publishing import example
from stair.hub.revisions import hub_sources, marked_commit
from stair.records.csv_table import csv_table
from stair.records.files import write_json, write_text
from stair.records.manifest import manifest_path, recorded_fact, write_manifest
from stair.records.markdown import markdown_table
from stair.records.rows import BenchmarkProblem, SourceRecord
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import rows_as

Row = dict[str, Any]
Pools = Mapping[str, Sequence[SourceRecord]]
"""The training pools by model."""

_EXAMPLES = 3
_NEAREST = 20
"""Near-duplicates on the page; the CSV has all."""
_WITHHELD = 0.3
"""A training problem that has this share of the shorter text in common with a withheld question is withheld too.

The share is far below that of near-duplicates, because a withheld example costs nothing."""


class Step(NamedTuple):
    """A step of the cleaning, with the rows, records and problems that it removed or left; a row of counts.csv."""

    model: str
    step: str
    rows: int | None
    records: int | None
    problems: int | None
    paper: str | None
    why: str


def write_report(config: Config, paths: RunPaths) -> None:
    """Writes data/report.md, report.json, counts.csv and near_duplicates.csv."""
    benchmarks = {key: [*rows_as(paths.benchmark(key), BENCHMARK, BenchmarkProblem)] for key in config.benchmarks}
    pools = {model: [*rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord)] for model in config.models}
    cleaning = {model: json.loads(paths.cleaning(model).read_text(encoding="utf-8")) for model in config.models}
    steps = [step for model in config.models for step in _steps(model, cleaning[model]["counts"])]
    steps += _benchmark_steps(config, benchmarks)
    questions = {(key, row.source_id): question(row) for key, rows in benchmarks.items() for row in rows}
    remaining = {model: _questions_in(pools[model], questions) for model in config.models}
    left_out = {
        key: _left_out_problems(paths, key, pools) for key, item in config.benchmarks.items() if item.exclude_ids
    }
    problems = {record.problem_id: record.problem for pool in pools.values() for record in reversed(pool)}
    near = near_duplicates(problems, questions)
    letters = {
        key: dict(Counter(row.reference for row in rows))
        for key, rows in benchmarks.items()
        if config.benchmarks[key].kind == "choice"
    }
    texts = _Texts(config, questions, problems)
    report = {
        "run": config.run,
        "sources": _sources(config, paths),
        "counts": [step._asdict() for step in steps],
        "removed": {model: cleaning[model]["removed"] for model in config.models},
        "left_in_pool": remaining,
        "left_out_in_pool": left_out,
        "without_fixed_texts": {model: cleaning[model]["unwrapped"] for model in config.models},
        "near_duplicates": {"jaccard": JACCARD, "containment": CONTAINMENT, "pairs": len(near)},
        "choice_letters": letters,
    }
    write_json(paths.data_report(".json"), report)
    write_text(paths.data_counts, csv_table(Step._fields, steps))
    write_text(paths.near_duplicates, csv_table(NearDuplicate._fields, near))
    write_text(paths.data_report(".md"), _page(config, report, steps, near, texts, pools))
    for path in (paths.data_report(".md"), paths.data_report(".json"), paths.data_counts, paths.near_duplicates):
        write_manifest(path, stage="data", settings={})
    print(f"data report: {paths.data_report('.md')}, {len(near)} near-duplicates")


class _Texts:
    """Texts for examples, as far as they may be published."""

    def __init__(
        self,
        config: Config,
        questions: Mapping[tuple[str, str], str],
        problems: Mapping[str, str],
    ) -> None:
        self._publish = {key: item.publish_text for key, item in config.benchmarks.items()}
        self._publish_pool = config.training_pool.publish_text
        self._questions = questions
        self._problems = problems
        # A training problem can contain the text of a withheld question, or a part of it.
        withheld = [text for (key, _), text in questions.items() if not self._publish[key]]
        self._withheld = overlapping(problems, withheld, _WITHHELD) | {identity(text) for text in withheld}

    def question(self, benchmark: str, source: str) -> str:
        """A benchmark's question."""
        return example(self._questions[benchmark, source], self._publish[benchmark])

    def problem(self, problem: str) -> str:
        """A training problem; withheld if it equals or resembles a withheld question."""
        return example(self._problems[problem], self._may_show(problem))

    def answers(self, problem: str, answers: Iterable[str]) -> str:
        """A training problem's answers, which can quote withheld text."""
        return ", ".join(sorted(answers)) if self._may_show(problem) else "(not published)"

    def _may_show(self, problem: str) -> bool:
        return self._publish_pool and problem not in self._withheld


def _steps(model: str, counts: Mapping[str, Any]) -> list[Step]:
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


def _benchmark_steps(config: Config, benchmarks: Mapping[str, Sequence[BenchmarkProblem]]) -> list[Step]:
    return [
        Step(
            "", f"benchmark {key}", len(rows) + len(config.benchmarks[key].exclude_ids), None, len(rows),
            f"{BENCHMARK_PROBLEMS[key]} problems" if key in BENCHMARK_PROBLEMS else None,
            f"left out: {', '.join(config.benchmarks[key].exclude_ids)}" if config.benchmarks[key].exclude_ids else "",
        )
        for key, rows in benchmarks.items()
    ]  # fmt: skip


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
            commit=marked_commit(hub[name]) if name in hub else None,
            publish_text=item.publish_text,
        )
        for name, item in sets
    ]


def _page(
    config: Config,
    report: Mapping[str, Any],
    steps: Sequence[Step],
    near: Sequence[NearDuplicate],
    texts: _Texts,
    pools: Pools,
) -> str:
    parts = [f"# Data of the run {config.run}", ""]
    parts += [config.note, ""] if config.note else []
    parts += ["## Sources", "", *markdown_table(("data set", "source", "commit", "text may be published"), (
        (row["name"], f"{row['source']} {row['file'] or ''}".strip(), row["commit"] or "", "yes" if row["publish_text"] else "no")
        for row in report["sources"]
    )), ""]  # fmt: skip
    lines = (
        (step.model, step.step, *map(_number, (step.rows, step.records, step.problems)), step.paper or "", step.why)
        for step in steps
    )
    head = ("model", "step", "rows", "records", "problems", "the paper", "why")
    parts += ["## What each step left", "", *markdown_table(head, lines), ""]
    parts += _removed(report["removed"], texts)
    parts += _unwrapped(report["without_fixed_texts"], pools, texts)
    parts += _several(pools, texts)
    parts += _remaining(report["left_in_pool"])
    parts += _left_out(report["left_out_in_pool"])
    parts += _near(near, texts)
    parts += _letters(report["choice_letters"])
    return "\n".join(parts).rstrip() + "\n"


def _removed(removed: Mapping[str, Sequence[Row]], texts: _Texts) -> list[str]:
    parts = ["## Problems of benchmarks that were removed", ""]
    for model, rows in removed.items():
        by_benchmark: dict[str, list[Row]] = {}
        for row in rows:
            by_benchmark.setdefault(row["benchmark"], []).append(row)
        for benchmark, some in by_benchmark.items():
            parts += [f"{model}: {len(some)} source records of {benchmark}, such as", ""]
            parts += [
                f"- record {row['record_id']} is {benchmark} {row['source_id']}: {texts.question(benchmark, row['source_id'])}"
                for row in some[:_EXAMPLES]
            ]
            parts.append("")
    return parts if len(parts) > 2 else [*parts, "None.", ""]


def _unwrapped(unwrapped: Mapping[str, Sequence[str]], pools: Pools, texts: _Texts) -> list[str]:
    """Examples of prompts without the fixed opening or ending; the configuration may lack their wording."""
    parts = ["## Prompts without the fixed texts", ""]
    for model, records in unwrapped.items():
        problem_of = {record.record_id: record.problem_id for record in pools[model]}
        parts += [
            f"{model}:",
            "",
            *(f"- record {one}: {texts.problem(problem_of[one])}" for one in records),
            "",
        ] * bool(records)
    return parts if len(parts) > 2 else [*parts, "None is left in a pool.", ""]


def _several(pools: Pools, texts: _Texts) -> list[str]:
    """Examples of problems with several source records."""
    parts = ["## Problems with several source records", ""]
    for model, pool in pools.items():
        of_problem: dict[str, list[SourceRecord]] = {}
        for record in pool:
            of_problem.setdefault(record.problem_id, []).append(record)
        many = sorted(
            (some for some in of_problem.values() if len(some) > 1), key=lambda some: (-len(some), some[0].problem_id)
        )
        parts += [f"{model}: {len(many)} problems" + (", such as" if many else ""), ""]
        parts += [
            f"- {some[0].problem_id}: {len(some)} records, answers "
            f"{texts.answers(some[0].problem_id, {one.reference for one in some})}: {texts.problem(some[0].problem_id)}"
            for some in many[:_EXAMPLES]
        ]
        parts += [""] if many else []
    return parts


def _remaining(remaining: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    parts = ["## Questions of benchmarks that stay in a pool", ""]
    parts += ["By normalised text; these benchmarks are not excluded for these models.", ""]
    lines = [
        f"- {model}, {benchmark}: {len(ids)} questions ({', '.join(ids[:_NEAREST])}{', …' if len(ids) > _NEAREST else ''})"
        for model, by_benchmark in remaining.items()
        for benchmark, ids in by_benchmark.items()
    ]
    return [*parts, *(lines or ["None: what evaluation asks is in no pool."]), ""]


def _left_out(left_out: Mapping[str, Row]) -> list[str]:
    """The paper reports six AMC23 problems in all three pools: its only check of the normalised text."""
    parts = ["## Problems that evaluation leaves out", ""] if left_out else []
    for benchmark, problems in left_out.items():
        ids = set(LEFT_OUT.get(benchmark, ()))
        claimed = " The paper found each of them in every pool." if ids and ids == set(problems["left_out"]) else ""
        parts += [
            f"{benchmark} leaves out {len(problems['left_out'])} ({', '.join(problems['left_out'])}).{claimed}",
            "",
        ]
        parts += [
            f"- {model}: {len(held)} in the pool by normalised text" + (f" ({', '.join(held)})" if held else "")
            for model, held in problems["in_pool"].items()
        ]
        parts.append("")
    return parts


def _near(near: Sequence[NearDuplicate], texts: _Texts) -> list[str]:
    parts = [
        "## Near-duplicates across the border",
        "",
        f"Pairs of a training problem and a question that are not equal by normalised text, but share at least {JACCARD:.0%} of "
        f"their five-character shingles, or hold {CONTAINMENT:.0%} of the question's. They are not removed: the paper removes "
        f"equal ones only. {len(near)} pairs; near_duplicates.csv has all.",
        "",
    ]
    if not near:
        return parts
    rows = (
        (
            pair.problem_id,
            f"{pair.benchmark} {pair.source_id}",
            f"{pair.jaccard:.2f}",
            f"{pair.containment:.2f}",
            texts.problem(pair.problem_id),
            texts.question(pair.benchmark, pair.source_id),
        )
        for pair in near[:_NEAREST]
    )
    return [
        *parts,
        *markdown_table(("problem", "question", "Jaccard", "containment", "training text", "benchmark text"), rows),
        "",
    ]


def _letters(letters: Mapping[str, Mapping[str, int]]) -> list[str]:
    if not letters:
        return []
    rows = [(key, *(str(counts.get(letter, 0)) for letter in LETTERS)) for key, counts in letters.items()]
    return ["## Where the right choice stands", "", *markdown_table(("benchmark", *LETTERS), rows), ""]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
