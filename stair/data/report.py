"""The data report: what each step of the cleaning removed and why, beside the paper's counts; what it may have missed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from stair.records.manifest import manifest_path, write_manifest
from stair.records.markdown import markdown_table
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import read_table

Row = dict[str, Any]

_EXAMPLES = 3
_NEAREST = 20
"""Near-duplicates that stand in the page; the CSV has all."""
_WITHHELD = 0.3
"""From this share of the shorter text in common with a question that may not be published, a training problem is not shown: far
less than makes a near-duplicate, for an example that is not shown costs nothing."""


def write_report(config: Config, paths: RunPaths) -> None:
    """Writes data/report.md, report.json, counts.csv and near_duplicates.csv."""
    benchmarks = {key: read_table(paths.benchmark(key), BENCHMARK) for key in config.benchmarks}
    pools = {model: read_table(paths.training_pool(model), TRAINING_POOL) for model in config.models}
    cleaning = {model: json.loads(paths.cleaning(model).read_text(encoding="utf-8")) for model in config.models}
    counts = [row for model in config.models for row in _steps(model, cleaning[model]["counts"])]
    counts += _benchmark_rows(config, benchmarks)
    questions = {(key, row["source_id"]): question(row) for key, rows in benchmarks.items() for row in rows}
    left = {model: _left_in(pools[model], questions) for model in config.models}
    without = {key: _without(paths, key, pools) for key, item in config.benchmarks.items() if item.exclude_ids}
    problems = {row["problem_id"]: row["problem"] for rows in pools.values() for row in reversed(rows)}
    near = near_duplicates(problems, questions)
    letters = {
        key: dict(Counter(row["reference"] for row in rows))
        for key, rows in benchmarks.items()
        if config.benchmarks[key].kind == "choice"
    }
    texts = _Texts(config, benchmarks, problems)
    found = {
        "run": config.run,
        "sources": _sources(config, paths),
        "counts": counts,
        "removed": {model: cleaning[model]["removed"] for model in config.models},
        "left_in_pool": left,
        "left_out_in_pool": without,
        "without_fixed_texts": {model: cleaning[model]["unwrapped"] for model in config.models},
        "near_duplicates": {"jaccard": JACCARD, "containment": CONTAINMENT, "pairs": len(near)},
        "choice_letters": letters,
    }
    write_json(paths.data_report(".json"), found)
    write_text(paths.data_counts, csv_table(("model", "step", "rows", "records", "problems", "paper", "why"), counts))
    pairs = [vars(pair) for pair in near]
    write_text(
        paths.near_duplicates, csv_table(("problem_id", "benchmark", "source_id", "jaccard", "containment"), pairs)
    )
    write_text(paths.data_report(".md"), _page(config, found, near, texts, pools))
    for path in (paths.data_report(".md"), paths.data_report(".json"), paths.data_counts, paths.near_duplicates):
        write_manifest(path, stage="data", settings={})
    print(f"data report: {paths.data_report('.md')}, {len(near)} near-duplicates")


class _Texts:
    """Texts for examples, as far as they may be published."""

    def __init__(
        self,
        config: Config,
        benchmarks: Mapping[str, Sequence[Row]],
        problems: Mapping[str, str],
    ) -> None:
        self._publish = {key: item.publish_text for key, item in config.benchmarks.items()}
        self._publish_pool = config.training_pool.publish_text
        self._asked = {(key, row["source_id"]): question(row) for key, rows in benchmarks.items() for row in rows}
        self._problems = problems
        # A training problem can hold the text of a question that may not be shown, or a part of it.
        withheld = [text for (key, _), text in self._asked.items() if not self._publish[key]]
        self._secret = overlapping(problems, withheld, _WITHHELD) | {identity(text) for text in withheld}

    def asked(self, benchmark: str, source: str) -> str:
        """A benchmark's question."""
        return example(self._asked[benchmark, source], self._publish[benchmark])

    def problem(self, problem: str) -> str:
        """A training problem; one that is, or is near, a question that may not be shown is not shown either."""
        return example(self._problems[problem], self._shown(problem))

    def answers(self, problem: str, answers: Iterable[str]) -> str:
        """A training problem's answers, which can quote what may not be shown."""
        return ", ".join(sorted(answers)) if self._shown(problem) else "(not published)"

    def _shown(self, problem: str) -> bool:
        return self._publish_pool and problem not in self._secret


def _steps(model: str, counts: Mapping[str, Any]) -> list[Row]:
    """A model's cleaning, a row for each step: what it removed, and what was left after it."""
    records, problems = counts["records"], counts["problems"]
    rows = [
        _step(model, "read", counts["rows"], None, None, None, "rows of the data set's file"),
        _step(
            model, "exact duplicates removed", counts["exact_duplicates"], None, None, None,
            f"same prompt and answer; a record stands {counts['fewest_copies']} to {counts['most_copies']} times",
        ),
        _step(model, "source records", counts["rows"], records, problems, None, "distinct (prompt text, answer)"),
    ]  # fmt: skip
    for benchmark, number in counts["excluded_by"].items():
        rows.append(
            _step(
                model, f"excluded: {benchmark}", counts["excluded_rows_by"][benchmark],
                counts["excluded_records_by"][benchmark], number, None,
                "normalised text equals a question of the benchmark",
            )
        )  # fmt: skip
    rows += [
        _step(
            model, "excluded in all", counts["excluded_rows"], counts["excluded_records"], counts["excluded_problems"], None,
            "a problem can stand in several benchmarks",
        ),
        _step(
            model, "left", counts["rows"] - counts["excluded_rows"], records - counts["excluded_records"],
            problems - counts["excluded_problems"],
            f"{PROBLEMS['problems_left']:,} problems", "rows: with all copies of the records",
        ),
        _step(
            model, "validation", counts["validation_rows"], counts["validation_records"], counts["validation_problems"],
            f"{PROBLEMS['validation_problems']:,} problems", "first by hash, with all records of a problem",
        ),
        _step(
            model, "training", counts["training_rows"], counts["training_records"], counts["training_problems"],
            _paper_training(model), "",
        ),
        _step(
            model, "problems with several records", None, None, counts["problems_with_many_records"], None,
            "of all source records, before exclusion",
        ),
        _step(
            model, "problems with several answers", None, None, counts["problems_with_many_answers"], None,
            "of all source records, before exclusion; answers as they are spelt",
        ),
        _step(
            model, "without the fixed texts", counts["rows_without_fixed_texts"], None, None, None,
            "rows whose prompt lacks training_pool.strip_prefixes or strip_suffixes; kept",
        ),
    ]  # fmt: skip
    return rows


def _step(
    model: str, step: str, rows: int | None, records: int | None, problems: int | None, paper: str | None, why: str
) -> Row:
    return dict(model=model, step=step, rows=rows, records=records, problems=problems, paper=paper, why=why)


def _paper_training(model: str) -> str:
    records = training_records(model)
    problems = f"{PROBLEMS['training_problems']:,} problems"
    return f"{problems}; {records} records by its update count" if records else problems


def _benchmark_rows(config: Config, benchmarks: Mapping[str, Sequence[Row]]) -> list[Row]:
    return [
        _step(
            "", f"benchmark {key}", len(rows) + len(config.benchmarks[key].exclude_ids), None, len(rows),
            f"{BENCHMARK_PROBLEMS[key]} problems" if key in BENCHMARK_PROBLEMS else None,
            f"left out: {', '.join(config.benchmarks[key].exclude_ids)}" if config.benchmarks[key].exclude_ids else "",
        )
        for key, rows in benchmarks.items()
    ]  # fmt: skip


def _left_in(pool: Sequence[Row], questions: Mapping[tuple[str, str], str]) -> dict[str, list[str]]:
    """The questions of benchmarks that a pool still holds, because they are not excluded for this model."""
    held = {row["problem_id"] for row in pool}
    found: dict[str, list[str]] = {}
    for (benchmark, source), text in questions.items():
        if identity(text) in held:
            found.setdefault(benchmark, []).append(source)
    return found


def _without(paths: RunPaths, benchmark: str, pools: Mapping[str, Sequence[Row]]) -> Row:
    """The problems that a benchmark leaves out, and which of them each model's pool holds."""
    manifest = json.loads(manifest_path(paths.benchmark(benchmark)).read_text(encoding="utf-8"))
    problems: dict[str, str] = manifest["left_out"]
    held = {model: {row["problem_id"] for row in rows} for model, rows in pools.items()}
    found = {model: [source for source, one in problems.items() if one in held[model]] for model in pools}
    return dict(left_out=list(problems), in_pool=found)


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
    found: Mapping[str, Any],
    near: Sequence[NearDuplicate],
    texts: _Texts,
    pools: Mapping[str, list[Row]],
) -> str:
    parts = [f"# Data of the run {config.run}", ""]
    parts += [config.note, ""] if config.note else []
    parts += ["## Sources", "", *markdown_table(("data set", "source", "commit", "text may be published"), (
        (row["name"], f"{row['source']} {row['file'] or ''}".strip(), row["commit"] or "", "yes" if row["publish_text"] else "no")
        for row in found["sources"]
    )), ""]  # fmt: skip
    steps = (
        (
            row["model"],
            row["step"],
            *(_number(row[name]) for name in ("rows", "records", "problems")),
            row["paper"] or "",
            row["why"],
        )
        for row in found["counts"]
    )
    head = ("model", "step", "rows", "records", "problems", "the paper", "why")
    parts += ["## What each step left", "", *markdown_table(head, steps), ""]
    parts += _removed(found["removed"], texts)
    parts += _unwrapped(found["without_fixed_texts"], pools, texts)
    parts += _several(pools, texts)
    parts += _left(found["left_in_pool"], texts)
    parts += _left_out(found["left_out_in_pool"])
    parts += _near(near, texts)
    parts += _letters(found["choice_letters"])
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
                f"- record {row['record_id']} is {benchmark} {row['source_id']}: {texts.asked(benchmark, row['source_id'])}"
                for row in some[:_EXAMPLES]
            ]
            parts.append("")
    return parts if len(parts) > 2 else [*parts, "None.", ""]


def _unwrapped(unwrapped: Mapping[str, Sequence[str]], pools: Mapping[str, list[Row]], texts: _Texts) -> list[str]:
    """Examples of prompts without the data set's fixed opening or ending, whose wording the configuration may lack."""
    parts = ["## Prompts without the fixed texts", ""]
    for model, records in unwrapped.items():
        problem_of = {row["record_id"]: row["problem_id"] for row in pools[model]}
        parts += [
            f"{model}:",
            "",
            *(f"- record {one}: {texts.problem(problem_of[one])}" for one in records),
            "",
        ] * bool(records)
    return parts if len(parts) > 2 else [*parts, "None is left in a pool.", ""]


def _several(pools: Mapping[str, list[Row]], texts: _Texts) -> list[str]:
    """Examples of problems with several source records."""
    parts = ["## Problems with several source records", ""]
    for model, rows in pools.items():
        records: dict[str, list[Row]] = {}
        for row in rows:
            records.setdefault(row["problem_id"], []).append(row)
        many = sorted(
            (some for some in records.values() if len(some) > 1), key=lambda some: (-len(some), some[0]["problem_id"])
        )
        parts += [f"{model}: {len(many)} problems" + (", such as" if many else ""), ""]
        parts += [
            f"- {some[0]['problem_id']}: {len(some)} records, answers "
            f"{texts.answers(some[0]['problem_id'], {row['reference'] for row in some})}: {texts.problem(some[0]['problem_id'])}"
            for some in many[:_EXAMPLES]
        ]
        parts += [""] if many else []
    return parts


def _left(left: Mapping[str, Mapping[str, Sequence[str]]], texts: _Texts) -> list[str]:
    parts = ["## Questions of benchmarks that stay in a pool", ""]
    parts += ["By normalised text; these benchmarks are not excluded for these models.", ""]
    found = [
        f"- {model}, {benchmark}: {len(ids)} questions ({', '.join(ids[:_NEAREST])}{', …' if len(ids) > _NEAREST else ''})"
        for model, by_benchmark in left.items()
        for benchmark, ids in by_benchmark.items()
    ]
    return [*parts, *(found or ["None: what evaluation asks is in no pool."]), ""]


def _left_out(without: Mapping[str, Row]) -> list[str]:
    """The paper found six AMC23 problems in all three pools: the one check of the normalised text that it offers."""
    parts = ["## Problems that evaluation leaves out", ""] if without else []
    for benchmark, found in without.items():
        ids = set(LEFT_OUT.get(benchmark, ()))
        claimed = " The paper found each of them in every pool." if ids and ids == set(found["left_out"]) else ""
        parts += [f"{benchmark} leaves out {len(found['left_out'])} ({', '.join(found['left_out'])}).{claimed}", ""]
        parts += [
            f"- {model}: {len(held)} in the pool by normalised text" + (f" ({', '.join(held)})" if held else "")
            for model, held in found["in_pool"].items()
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
            texts.asked(pair.benchmark, pair.source_id),
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
