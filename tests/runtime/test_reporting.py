"""Table bank_runtime and its numbers in the text: the paper's spelling, medians, gaps, and what is said of a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.labels import Labels
from stair.paper.latex import latex
from stair.paper.layout import markdown
from stair.paper.make import build_table
from stair.paper.tables import bank_runtime
from stair.paper.tidy import tidy_csv
from stair.stages.runtime.stage import COLUMNS
from stair.statistics.grid import Gap
from tests.statistics.paper_rows import PAPER_VALUES

ROOT = Path(__file__).parents[2]
KEYS = ["artifact", "model", "benchmark", "condition", "turn", "group", "metric", "unit"]
MODEL = "qwen3.5-4b"
THREE = {"histories": 3}
Rows = list[dict[str, Any]]

PAPER: dict[str, Mapping[str, Sequence[float]]] = {
    "native": dict(entries=[0] * 3, transfer=[0] * 3, prefill=[61, 70, 80], decode=[10.08] * 3, peak=[8.01, 8.03, 8.1],
                   total=[10.14, 10.15, 10.3]),
    "prefix-2048": dict(entries=[2048] * 3, transfer=[6] * 3, prefill=[110] * 3, decode=[10.02] * 3, peak=[8.19] * 3,
                        total=[10.15] * 3),
    "prefix-8192": dict(entries=[8192] * 3, transfer=[24] * 3, prefill=[157] * 3, decode=[10.06] * 3, peak=[8.7] * 3,
                        total=[10.23] * 3),
    "prefix-32768": dict(entries=[32768] * 3, transfer=[138] * 3, prefill=[338] * 3, decode=[10.05] * 3,
                         peak=[10.71] * 3, total=[10.56] * 3),
    "full": dict(entries=[80_700, 70_000, 81_919], transfer=[330] * 3, prefill=[628, 700, 500], decode=[9.98] * 3,
                 peak=[14.61, 14.9, 14.5], total=[10.95, 11.2, 10.8]),
}  # fmt: skip
"""Three histories whose medians, and medians of paired increases, are the paper's."""


def measured(**changes: Any) -> Rows:
    """A study's rows, one repetition each."""
    found = []
    for number in range(3):
        about = dict(history=f"h{number}", repetition=1, bank_entries=int(PAPER["full"]["entries"][number]))
        about |= {"shape": "", "device": "GPU"}
        found.append({**about, "row": "construction", "total_s": 7.29, **changes})
        for row, columns in PAPER.items():
            entries = int(columns["entries"][number])
            one = dict(
                row=row, entries=entries, kv_bytes=entries * 12_288, tokens=256,
                transfer_s=columns["transfer"][number] / 1e3, prefill_s=columns["prefill"][number] / 1e3,
                decode_s=columns["decode"][number], total_s=columns["total"][number],
                peak_bytes=round(columns["peak"][number] * 2**30),
            )  # fmt: skip
            found.append({**about, **one, **changes})
    return found


def written(tmp_path: Path, rows: Rows, run: str = "paper", **changes: Any) -> tuple[Config, RunPaths, Labels]:
    config = resolve(ROOT, {"run": run, "results": str(tmp_path), "runtime": changes})
    paths = RunPaths.of(config)
    assert config.runtime is not None
    for model in config.runtime.models:
        paths.runtime(model).parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(paths.runtime(model), index=False)
    return config, paths, Labels.of(config)


def test_the_papers_numbers_are_spelled_as_the_papers_values(tmp_path: Path) -> None:
    config, paths, labels = written(tmp_path, measured(), **THREE)
    table = build_table(config, paths, "bank_runtime")
    text = [*bank_runtime.in_text(config, paths)]
    (tmp_path / "ours.csv").write_text(tidy_csv(table.exhibit.artifact, [*table.values, *text], labels))
    ours, paper = (
        pd.read_csv(path, dtype=str, keep_default_na=False) for path in (tmp_path / "ours.csv", PAPER_VALUES)
    )
    paper = paper[paper["artifact"].isin(["tab:bank-runtime", "app:component-runtime"])]
    paper = paper[paper["metric"] != "median bank length, shared-T1 AIME 2025"]
    found = paper.merge(ours, on=KEYS, how="left", suffixes=("", "_ours"), validate="one_to_one")
    assert len(found) == 30 + 5
    for row in found.itertuples():
        assert isinstance(row.value_ours, str), f"we have no {row}"
        value = Decimal(str(round(float(row.value_ours), 9)))
        assert value.quantize(Decimal(row.value)) == Decimal(row.value), row
    assert len(ours) == 35


def test_the_rows_read_as_the_papers(tmp_path: Path) -> None:
    config, paths, _ = written(tmp_path, measured(), **THREE)
    layout = build_table(config, paths, "bank_runtime").layout
    assert [tuple(cell.text for cell in row.cells) for row in layout.rows] == [
        ("Native", "0", "≈ 0", "70", "10.08", "8.03", "10.15"),
        ("2K", "24", "6", "110", "10.02", "8.19", "10.15"),
        ("8K", "96", "24", "157", "10.06", "8.70", "10.23"),
        ("32K", "384", "138", "338", "10.05", "10.71", "10.56"),
        ("Full", "≈ 946", "330", "628", "9.98", "14.61", "10.95"),
    ]
    assert [row.cells[0].text for row in layout.rows if row.shaded] == ["Full"]
    assert not any(cell.bold for row in layout.rows for cell in row.cells)
    assert "| Bank | K/V (MiB) | Transfer (ms) | Prefill (ms) | Decode (s) | Peak (GiB) | Total (s) |" in markdown(
        layout
    )
    printed = latex(layout)
    assert r"\label{tab:bank-runtime}" in printed
    assert r"\begin{tabular}{lrrrrrr}" in printed
    assert "\n\n" not in printed
    assert "of Qwen3.5-4B on MATH-500 across three histories" in layout.caption
    assert "256-token decode" in layout.caption


@pytest.mark.parametrize(("histories", "count"), [(1, 1), (4, 2), (5, 3), (16, 3)])
def test_medians_within_a_history_then_across(tmp_path: Path, histories: int, count: int) -> None:
    drawn = np.random.default_rng(histories)
    times = {row: drawn.random((histories, count)) for row in ("native", "full")}
    rows = [
        dict(history=f"h{place}", row=row, repetition=number, prefill_s=times[row][place, number], device="GPU")
        for row in times for place in range(histories) for number in range(count)
    ]  # fmt: skip
    drawn.shuffle(rows)
    config, paths, _ = written(tmp_path, rows, histories=histories)
    values = {
        (value.condition, value.metric): value.value for value in build_table(config, paths, "bank_runtime").values
    }
    native, full = (np.median(times[row], axis=1) for row in ("native", "full"))
    assert values["Full", "prefill"] == pytest.approx(1e3 * np.median(full))
    assert values["Native", "prefill"] == pytest.approx(1e3 * np.median(native))
    increase, *_ = bank_runtime.in_text(config, paths)
    assert increase.value == pytest.approx(1e3 * np.median(full - native))
    assert (increase.low is not None) == (histories >= 6)


@pytest.mark.parametrize("found", [0, 3])
def test_too_few_long_banks_are_a_gap_with_the_count(tmp_path: Path, found: int) -> None:
    reason = f"{found} of the 16 histories have a bank longer than 32,768 entries; set runtime.histories or runtime.longer_than"
    config, paths, _ = written(tmp_path, measured() if found else [])
    table = build_table(config, paths, "bank_runtime")
    assert table.values
    assert {value.value for value in table.values} == {Gap(reason)}
    assert all(cell.text == "--" for row in table.layout.rows for cell in row.cells[1:])
    assert table.layout.notes.count(f"Not reported: {reason}.") == 1
    assert {value.value for value in bank_runtime.in_text(config, paths)} == {Gap(reason)}


def test_a_reduced_shape_is_said_wherever_numbers_stand(tmp_path: Path) -> None:
    shape = "random weights, reduced shape: 12 layers of width 64, lengths divided by 32"
    config, paths, _ = written(tmp_path, measured(shape=shape, peak_bytes=None), "shapes", **THREE)
    table = build_table(config, paths, "bank_runtime")
    assert {value.group for value in table.values} == {"random weights, reduced shape"}
    headings = [row.cells[0].text for row in table.layout.rows if row.heading]
    assert headings == [f"{name} shape (reduced)" for name in ("Qwen3-4B", "Qwen3.5-4B", "Qwen3.5-9B")]
    notes = "\n".join(table.layout.notes)
    assert "Random weights, reduced shape: 12 layers of width 64" in notes
    assert "Measured on a CPU" in notes
    assert "Not reported: peak memory is measured on a GPU alone." in notes
    assert all("reduced shape" in value.group for value in bank_runtime.in_text(config, paths))
