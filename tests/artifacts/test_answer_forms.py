"""The counts of answers' forms, from generated rows through the scores' manifest to the notes under the accuracies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stair.artifacts.answer_forms import CHOICE_TEXT, SEVERAL_BOXES, with_answer_forms
from stair.artifacts.labels import Labels
from stair.artifacts.tables.table import nothing
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.evaluation.scores import score_condition
from stair.records.manifest import manifest_path
from stair.records.schemas import BENCHMARK, RESPONSES, SCORED
from stair.records.tables import read_table, write_table

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"
CHOICES = ["10 m/s", "42 m/s", "7 m/s", "0 m/s"]


def response_row(benchmark: str, condition: str, number: int, response: str) -> dict[str, Any]:
    empty = {pa.string(): "", pa.bool_(): False, pa.list_(pa.int32()): []}
    row: dict[str, Any] = {field.name: None if field.nullable else empty.get(field.type, 0) for field in RESPONSES}
    place = dict(model=MODEL, benchmark=benchmark, condition=condition, session_id=f"s{number}", turn=1)
    return row | place | dict(problem_id=f"p{number}", response=response, finish_reason="stop")


@pytest.fixture
def run(tmp_path: Path) -> tuple[Config, RunPaths]:
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path / "results")})
    paths = RunPaths.of(config)
    responses = {
        ("gpqa_diamond", "native"): [r"\boxed{B}", r"\boxed{B) 42 m/s}", r"\boxed{A}, \boxed{B}", r"\boxed{C}"],
        ("gpqa_diamond", "stair"): [r"\boxed{B}"] * 4,
        ("math500", "native"): [r"$\boxed{1}$ and $\boxed{2}$", r"\boxed{B}", "", r"\boxed{2"],
    }
    for (benchmark, condition), texts in responses.items():
        rows = [response_row(benchmark, condition, number, text) for number, text in enumerate(texts)]
        write_table(paths.responses(MODEL, benchmark, condition), RESPONSES, rows)
        kind = config.benchmarks[benchmark].kind
        choices = CHOICES if kind == "choice" else None
        problem = dict(problem="Which?", reference="B", kind=kind, choices=choices)
        write_table(
            paths.benchmark(benchmark),
            BENCHMARK,
            [dict(problem_id=f"p{number}", source_id=str(number), **problem) for number in range(4)],
        )
        score_condition(config, paths, MODEL, benchmark, condition, workers=0)
    return config, paths


def test_the_manifest_of_scores_counts_what_the_rows_do_not_show(run: tuple[Config, RunPaths]) -> None:
    _, paths = run
    found = {
        (benchmark, condition): json.loads(manifest_path(paths.evaluation(MODEL, benchmark, condition)).read_text())
        for benchmark, condition in (("gpqa_diamond", "native"), ("gpqa_diamond", "stair"), ("math500", "native"))
    }
    assert found["gpqa_diamond", "native"]["answer_forms"] == {"several_boxes": 1, "choice_text": 1}
    assert found["gpqa_diamond", "stair"]["answer_forms"] == {"several_boxes": 0, "choice_text": 0}
    assert found["math500", "native"]["answer_forms"] == {"several_boxes": 1, "choice_text": None}
    scored = read_table(paths.evaluation(MODEL, "gpqa_diamond", "native"), SCORED)
    assert [row["correct"] for row in scored] == [True, False, True, False], "the rule itself stays"


def test_the_notes_say_the_shares_beside_the_accuracy(run: tuple[Config, RunPaths]) -> None:
    config, paths = run
    labels = Labels.of(config)
    table = with_answer_forms(nothing("intervals", labels), config, paths)
    model = labels.model(MODEL)
    assert table.layout.notes[-3:] == (
        f"{model} on {labels.benchmark('math500')}: {SEVERAL_BOXES} (all turns): Native 25.00%.",
        f"{model} on {labels.benchmark('gpqa_diamond')}: {SEVERAL_BOXES} (all turns): Native 25.00%.",
        f"{model} on {labels.benchmark('gpqa_diamond')}: {CHOICE_TEXT} (all turns): Native 25.00%.",
    )


def test_without_scores_nothing_is_said(tmp_path: Path) -> None:
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path / "results")})
    table = nothing("intervals", Labels.of(config))
    assert with_answer_forms(table, config, RunPaths.of(config)) == table
