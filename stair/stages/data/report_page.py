"""The page of the data report: its sections in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stair.config.model import Config
from stair.records.rows import SourceRecord
from stair.records.text_tables import markdown_table
from stair.stages.data.cleaning_steps import LEFT_OUT, Step
from stair.stages.data.example_texts import ExampleTexts
from stair.stages.data.near_duplicates import CONTAINMENT, JACCARD, NearDuplicate
from stair.stages.data.problem_texts import LETTERS

Row = dict[str, Any]
Pools = Mapping[str, Sequence[SourceRecord]]
"""The training pools by model."""

_EXAMPLES = 3
_NEAREST = 20


def page(
    config: Config,
    report: Mapping[str, Any],
    steps: Sequence[Step],
    near: Sequence[NearDuplicate],
    texts: ExampleTexts,
    pools: Pools,
) -> str:
    """The text of report.md.

    Args:
        report: the content of report.json.
        steps: the steps of the cleaning.
        near: near-duplicates of training problems and questions.
    """
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


def _removed(removed: Mapping[str, Sequence[Row]], texts: ExampleTexts) -> list[str]:
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


def _unwrapped(unwrapped: Mapping[str, Sequence[str]], pools: Pools, texts: ExampleTexts) -> list[str]:
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


def _several(pools: Pools, texts: ExampleTexts) -> list[str]:
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


def _near(near: Sequence[NearDuplicate], texts: ExampleTexts) -> list[str]:
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
