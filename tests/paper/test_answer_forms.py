"""The counts of answers' forms, from generated rows through the scores' manifest to the notes under the accuracies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.make import build_table
from stair.paper.tables.run_notes import CHOICE_TEXT, SEVERAL_BOXES
from stair.records.manifest import manifest_path
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, RESPONSES, SCORED
from stair.records.tables import read_table, write_table
from tests.scored import score

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"
CHOICES = ["10 m/s", "42 m/s", "7 m/s", "0 m/s"]
SECOND_TURNS = {
    ("gpqa_diamond", "native"): [r"\boxed{B}", r"\boxed{B) 42 m/s}", r"\boxed{A}, \boxed{B}", r"\boxed{C}"],
    ("gpqa_diamond", "stair"): [r"\boxed{B) 10 m/s}", r"\boxed{B}", r"\boxed{B}", "none"],
    ("math500", "stair"): [
        r"$\boxed{1}$ and $\boxed{2}$",
        r"\boxed{B}",
        r"\boxed{2",
        r"$x = \boxed{1}, y = \boxed{2}$",
    ],
}
"""The four samples at T2; all other responses are right and in one box."""


def response_rows(model: str, benchmark: str, condition: str) -> list[dict[str, Any]]:
    """Four samples to one problem, at T1 and, but for Vanilla, at the later turns."""
    empty = {pa.string(): "", pa.bool_(): False, pa.list_(pa.int32()): []}
    blank = {field.name: None if field.nullable else empty.get(field.type, 0) for field in RESPONSES}
    second = SECOND_TURNS.get((benchmark, condition), []) if model == MODEL else []
    return [
        blank
        | dict(model=model, benchmark=benchmark, condition=condition, session_id="s", turn=turn, sample=sample)
        | dict(problem_id="p", finish_reason="stop", response=second[sample] if second and turn == 2 else r"\boxed{B}")
        for turn in range(1, 2 if condition == "vanilla" else 5)
        for sample in range(4)
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, RunPaths]:
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path_factory.mktemp("forms") / "results")})
    paths = RunPaths.of(config)
    for benchmark, settings in config.benchmarks.items():
        choices = CHOICES if settings.kind == "choice" else None
        reference = "2" if settings.kind == "integer" else "B"
        row = dict(problem_id="p", source_id="0", problem="?", reference=reference, kind=settings.kind, choices=choices)
        write_table(paths.benchmark(benchmark), BENCHMARK, [row])
        schedule = [{"session_id": "s", "turn": 1, "problem_id": row["problem_id"]}]
        write_table(paths.evaluation_sessions(benchmark), EVALUATION_SESSIONS, schedule)
    for condition in config.conditions:
        for model, benchmark in config.evaluated(condition):
            rows = response_rows(model, benchmark, condition)
            write_table(paths.responses(model, benchmark, condition), RESPONSES, rows)
            score(paths, model, benchmark, condition)
    paths.checks.write_text("name,scope,rows,detail\n")
    return config, paths


def test_the_manifest_of_scores_counts_what_the_verdicts_do_not_show(run: tuple[Config, RunPaths]) -> None:
    _, paths = run
    counts = {}
    for benchmark, condition in (*SECOND_TURNS, ("math500", "native")):
        manifest = manifest_path(paths.scored(MODEL, benchmark, condition))
        counts[benchmark, condition] = json.loads(manifest.read_text(encoding="utf-8"))["answer_forms"]
    assert counts == {
        ("gpqa_diamond", "native"): {"several_boxes": 1, "choice_text": 1},
        ("gpqa_diamond", "stair"): {"several_boxes": 0, "choice_text": 0},
        ("math500", "stair"): {"several_boxes": 2, "choice_text": None},
        ("math500", "native"): {"several_boxes": 0, "choice_text": None},
    }
    scored = read_table(paths.scored(MODEL, "gpqa_diamond", "native"), SCORED)
    assert [row["correct"] for row in scored if row["turn"] == 2] == [True, False, True, False], (
        "the rules themselves stay"
    )


def test_the_shares_stand_under_the_accuracies_and_zeros_are_left_out(run: tuple[Config, RunPaths]) -> None:
    config, paths = run
    model = config.models[MODEL].label
    benchmarks = {key: benchmark.label for key, benchmark in config.benchmarks.items()}
    notes = [note for note in build_table(config, paths, "intervals").layout.notes if "(all turns)" in note]
    assert notes == [
        f"{model} on {benchmarks['math500']}: {SEVERAL_BOXES} (all turns): STAIR 12.50%.",
        f"{model} on {benchmarks['gpqa_diamond']}: {SEVERAL_BOXES} (all turns): Native 6.25%.",
        f"{model} on {benchmarks['gpqa_diamond']}: {CHOICE_TEXT} (all turns): Native 6.25%.",
    ]
    other = build_table(config, paths, "continuous_summary").layout.notes
    assert not any("(all turns)" in note for note in other), "the paper's own tables have no such note"


def test_rows_that_were_scored_elsewhere_have_no_counts_and_no_note(run: tuple[Config, RunPaths]) -> None:
    config, paths = run
    manifest = manifest_path(paths.scored(MODEL, "math500", "stair"))
    kept = manifest.read_text(encoding="utf-8")
    manifest.unlink()
    notes = build_table(config, paths, "intervals").layout.notes
    manifest.write_text(kept, encoding="utf-8")
    assert not any("MATH" in note and "(all turns)" in note for note in notes)
