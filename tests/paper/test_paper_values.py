"""Rows with the paper's own counts, through `stair tables --responses`: the CSVs join with the paper's values, all of them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pandas as pd

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.labels import Labels
from stair.paper.make import tables_from
from stair.paper.tables.table import gap_reasons
from stair.records.manifest import manifest_path
from stair.statistics.grid import Gap
from tests.paper.paper_frame import Frame
from tests.paper.sources import source_of, table_of
from tests.statistics.paper_rows import PAPER_VALUES, rows_by_turn, shared_t1_rows, write_rows

ROOT = Path(__file__).parents[2]
KEYS = ["artifact", "model", "benchmark", "condition", "turn", "group", "metric", "unit"]


def joined(out: Path, artifacts: list[str]) -> pd.DataFrame:
    """The paper's values of the artifacts, and beside them ours."""
    names = {"dtype": str, "keep_default_na": False}
    ours = pd.concat([pd.read_csv(file, **names) for file in sorted(out.glob("*.csv"))])  # type: ignore[call-overload]
    paper = pd.read_csv(PAPER_VALUES, **names)  # type: ignore[call-overload]
    paper = paper[paper["artifact"].str.fullmatch("|".join(artifacts))]
    return paper.merge(ours, on=KEYS, how="left", suffixes=("", "_ours"), validate="one_to_one")


def assert_equal(found: pd.DataFrame, count: int) -> None:
    assert len(found) == count
    for row in found.itertuples():
        assert isinstance(row.value_ours, str), f"we have no {row}"
        value = Decimal(str(round(float(row.value_ours), 9)))
        assert value.quantize(Decimal(row.value)) == Decimal(row.value), row


def test_one_frame_of_rows_gives_every_table_of_the_evaluation(paper_frame: Frame) -> None:
    out = paper_frame.folder / "out"
    artifacts = ["tab:history-.*", "tab:native-accuracy", "tab:continuous-summary", "tab:turns-.*", "tab:lora-.*"]
    assert_equal(joined(out, artifacts), 504 + 8 + 15 + 72 + 264 + 32 + 16)
    text = (out / "lora_comparison.md").read_text()
    assert "| **LoRA + STAIR** | 4,141,056 | **43.33** | **+3.89** | **63.33** | **+4.44** |" in text
    assert "| **STAIR** | 12,288 | 38.06 | +3.61 | 52.22 | **+4.44** |" in text
    assert "| Native | 0 | 34.44 | – | 47.78 | – |" in text


def test_trained_parameters_follow_from_the_papers_shapes() -> None:
    """LoRA's are counted for Qwen3 alone."""
    found = source_of("lora_comparison", rows_by_turn("tab:lora-turns"), Labels()).trained
    assert [found["qwen3-4b-instruct", name] for name in ("stair", "lora", "lora_stair")] == [
        12_288,
        4_128_768,
        4_141_056,
    ]
    assert isinstance(found["qwen3.5-4b", "lora"], Gap)


def test_a_model_that_the_configuration_lacks_has_no_count() -> None:
    rows = rows_by_turn("tab:lora-turns").assign(model="mine")
    table = table_of("lora_comparison", rows, Labels())
    assert table is not None
    counts = [value.value for value in table.values if value.metric == "trainable parameters"]
    assert counts[0] == 0 and all(isinstance(count, Gap) for count in counts[1:])


def counted(folder: Path, out: Path) -> dict[str, str]:
    """The trainable parameters in the tables of the tiny run's rows, by condition."""
    tables_from(folder, out, resolve(ROOT, {"run": "tiny"}))
    values = pd.read_csv(out / "lora_comparison.csv", dtype=str, keep_default_na=False)
    values = values[values["metric"] == "trainable parameters"]
    return dict(zip(values["condition"], values["value"], strict=True))


def test_rows_of_another_model_under_a_papers_key_do_not_count_the_papers_parameters(tmp_path: Path) -> None:
    """The tiny run's models have the paper's keys; the controllers' manifests count their parameters."""
    write_rows(rows_by_turn("tab:lora-turns"), tmp_path)
    assert counted(tmp_path, tmp_path / "out") == {"Native": "0", "STAIR": "", "LoRA": "", "LoRA + STAIR": ""}
    assert "no manifest" in (tmp_path / "out" / "lora_comparison.md").read_text()
    for controller, count in (("stair", 192), ("lora", 29_184), ("lora_stair", 29_376)):
        manifest = manifest_path(RunPaths(tmp_path).controller("qwen3-4b-instruct", controller))
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(json.dumps({"parameters": count}))
    found = counted(tmp_path, tmp_path / "out")
    assert found == {"Native": "0", "STAIR": "192", "LoRA": "29184", "LoRA + STAIR": "29376"}


def test_the_shared_t1_study(paper_frame: Frame) -> None:
    out = paper_frame.folder / "out"
    assert_equal(joined(out, ["tab:shared-t1", "tab:bank-prefix-accuracy"]), 18 + 14)
    text = (out / "shared_t1.md").read_text()
    assert "| **STAIR** | **48.33** | **+26.67** | **80.00** |" in text
    assert "| Random-reflector | 37.22 | +15.56 | 63.33 |" in text
    prefixes = (out / "bank_prefix_accuracy.md").read_text()
    assert "| STAIR 8K | 114/120 | 43.33 | **80.00** |" in prefixes
    assert "| Native | – | 21.67 | 56.67 |" in prefixes


def test_bank_lengths_are_counted_where_conditions_without_a_bank_have_none(tmp_path: Path) -> None:
    """Native keeps no bank, so its scored rows hold null; a file of someone else's can lack the column."""
    rows = shared_t1_rows()
    banks = rows["bank_tokens"].astype("Int32").mask(rows["condition"] == "native")
    write_rows(rows.assign(bank_tokens=banks), tmp_path / "shared_t1")
    path = tmp_path / "shared_t1/qwen3.5-4b/aime2025/bank_free.parquet"
    pd.read_parquet(path).drop(columns="bank_tokens").to_parquet(path)
    tables_from(tmp_path, tmp_path / "out", resolve(ROOT, {"run": "paper"}))
    assert_equal(joined(tmp_path / "out", ["tab:shared-t1", "tab:bank-prefix-accuracy"]), 18 + 14)
    assert "| STAIR 8K | 114/120 |" in (tmp_path / "out" / "bank_prefix_accuracy.md").read_text()


def test_without_bank_lengths_the_cut_banks_are_a_gap(tmp_path: Path) -> None:
    write_rows(shared_t1_rows().drop(columns="bank_tokens"), tmp_path / "shared_t1")
    tables = tables_from(tmp_path, tmp_path / "out", resolve(ROOT, {"run": "paper"}))
    assert [reason for table in tables for reason in gap_reasons(table.values)] == [
        "bank lengths are not recorded in these rows"
    ]
