"""A run counts its auxiliary positions beyond the context: in manifests, scored rows and the card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.xdist_group("workflow")
MODEL = "qwen3-4b-instruct"
PLACE = f"{MODEL}/math500"


def manifest(results: Path, condition: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((results / f"responses/{PLACE}/{condition}.parquet.manifest.json").read_text())
    return found


def test_manifests_hold_the_condition_s_positions(finished_run: Path) -> None:
    results = finished_run / "results/smoke"
    context = json.loads((results / f"backbones/{MODEL}/config.json").read_text())["max_position_embeddings"]
    rows = pq.read_table(results / f"responses/{PLACE}/stair.parquet").to_pylist()
    ends = [
        row["bank_tokens"] + row["prompt_tokens"] for row in rows if row["bank_tokens"] and row["controlled_tokens"]
    ]
    assert max(ends) < context, "the smoke run stays within its context"
    expected = {"context": context, "largest": max(ends) - 1, "responses": 0, "queries": 0, "entries": 0}
    assert manifest(results, "stair")["auxiliary_positions"] == expected
    for condition in ("vanilla", "native"):
        assert manifest(results, condition)["auxiliary_positions"] is None, "no bank is read"


def test_scored_rows_carry_the_banks_length_and_the_count(finished_run: Path) -> None:
    results = finished_run / "results/smoke"
    for condition in ("vanilla", "native", "stair"):
        rows, scored = (
            pq.read_table(results / f"{stage}/{PLACE}/{condition}.parquet").to_pylist()
            for stage in ("responses", "evaluation")
        )
        assert [row["bank_tokens"] for row in scored] == [row["bank_tokens"] for row in rows]
        assert {row["beyond_context"] for row in scored} == {0 if condition == "stair" else None}


def test_the_card_is_part_of_the_run(finished_run: Path) -> None:
    results = finished_run / "results/smoke"
    positions = manifest(results, "stair")["auxiliary_positions"]
    (line,) = [
        line
        for line in (results / f"responses/{MODEL}.README.md").read_text().splitlines()
        if line.startswith("| math500 | stair |") and line.endswith("| 0 | 0 | 0 |")
    ]
    assert f"| {positions['largest']:,} | {positions['context']:,} |" in line
    outputs = json.loads((results / "provenance.json").read_text())
    assert f"responses/{MODEL}.README.md" in json.dumps(outputs)
