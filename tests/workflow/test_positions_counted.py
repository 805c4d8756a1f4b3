"""A run counts its auxiliary positions beyond the context: in manifests and scored rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.workflow.conftest import ROOT

MODEL = "qwen3-4b-instruct"
PLACE = f"{MODEL}/math500"


def test_manifests_and_scored_rows_have_the_counts(finished_run: Path) -> None:
    """The smoke run stays within its context; tests/sessions has counts above zero."""
    results = finished_run / "results/smoke"
    context = json.loads((ROOT / "backbones/tiny-qwen3-4b/config.json").read_text())["max_position_embeddings"]
    for condition in ("vanilla", "native", "stair"):
        name = f"{PLACE}/{condition}.parquet"
        rows, scored = (pq.read_table(results / stage / name).to_pylist() for stage in ("responses", "evaluation"))
        manifest = json.loads((results / f"responses/{name}.manifest.json").read_text())
        expected = None
        if condition == "stair":
            read = [row for row in rows if row["bank_tokens"] and row["controlled_tokens"]]
            largest = max(row["bank_tokens"] + row["prompt_tokens"] for row in read) - 1
            assert largest + 1 < context
            expected = {"context": context, "largest": largest, "responses": 0, "queries": 0, "entries": 0}
        assert manifest["auxiliary_positions"] == expected
        assert [row["bank_tokens"] for row in scored] == [row["bank_tokens"] for row in rows]
        assert {row["beyond_context"] for row in scored} == {0 if condition == "stair" else None}
