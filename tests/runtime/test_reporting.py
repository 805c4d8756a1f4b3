"""Table bank_runtime, its numbers in the text and the figure: the paper's spelling, gaps, and what is said of a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.figures import figure as figures
from stair.paper.labels import Labels
from stair.paper.latex import latex
from stair.paper.layout import markdown
from stair.paper.make import build_figure, build_table
from stair.paper.tables import bank_runtime
from stair.paper.tidy import tidy_csv
from stair.stages.runtime.repetitions import Line, write_lines
from stair.statistics.grid import Gap
from tests.runtime.runtime_cases import LINE
from tests.statistics.paper_rows import PAPER_VALUES

ROOT = Path(__file__).parents[2]
KEYS = ["artifact", "model", "benchmark", "condition", "turn", "group", "metric", "unit"]
MODEL = "qwen3.5-4b"

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


def lines(variant: str = "fast-serial", **changes: Any) -> list[Line]:
    """A study's lines, one repetition each."""
    found = []
    for row, columns in PAPER.items():
        for number in range(3):
            entries = int(columns["entries"][number])
            line = replace(
                LINE,
                row=row,
                variant="" if row == "native" else variant,
                history=f"h{number}",
                entries=entries,
                kv_bytes=entries * 12_288,
                transfer_s=columns["transfer"][number] / 1e3,
                prefill_s=columns["prefill"][number] / 1e3,
                decode_s=columns["decode"][number],
                total_s=columns["total"][number],
                peak_bytes=round(columns["peak"][number] * 2**30),
            )
            found.append(replace(line, **changes))
    for number in range(3):
        length = int(PAPER["full"]["entries"][number])
        built = replace(LINE, part="construction", row="", variant="", history=f"h{number}", bank_entries=length)
        found.append(replace(built, construction_s=7.29, **changes))
    return found


def written(
    tmp_path: Path, content: Sequence[Line], run: str = "paper", **changes: Any
) -> tuple[Config, RunPaths, Labels]:
    config = resolve(ROOT, {"run": run, "results": str(tmp_path), **changes})
    paths = RunPaths.of(config)
    assert config.runtime is not None
    for model in config.runtime.models:
        write_lines(paths.runtime(model), [replace(line, model=model) for line in content])
    return config, paths, Labels.of(config)


def test_the_papers_numbers_are_spelled_as_the_papers_values(tmp_path: Path) -> None:
    config, paths, labels = written(tmp_path, lines(), runtime={"variants": ["fast-serial"]})
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
    config, paths, _ = written(tmp_path, lines(), runtime={"variants": ["fast-serial"]})
    layout = build_table(config, paths, "bank_runtime").layout
    assert [tuple(cell.text for cell in row.cells) for row in layout.rows if not row.heading] == [
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


def test_the_printed_equations_and_the_overlapped_transfer_stand_beside(tmp_path: Path) -> None:
    overlapped = [line for line in lines("fast-overlapped", transfer_s=None) if line.variant]
    printed = [line for line in lines("printed-serial", prefill_s=1.0) if line.variant]
    config, paths, _ = written(tmp_path, [*lines(), *overlapped, *printed])
    table = build_table(config, paths, "bank_runtime")
    assert [row.cells[0].text for row in table.layout.rows if row.heading] == [
        "Fast, serial", "Fast, overlapped", "Printed, serial",
    ]  # fmt: skip
    assert {value.group for value in table.values} == {"", "fast, overlapped", "printed, serial"}
    assert [
        value.value for value in table.values if value.group == "printed, serial" and value.metric == "prefill"
    ] == [1e3] * 4
    assert not any(value.group == "fast, overlapped" and value.metric == "transfer" for value in table.values)
    assert any(note.startswith("Overlapped:") for note in table.layout.notes)


def test_too_few_long_banks_are_a_gap_with_the_count(tmp_path: Path) -> None:
    reason = (
        "7 of the 16 histories have a bank longer than 32,768 entries; set runtime.histories or runtime.longer_than"
    )
    empty = {name: None for name, value in vars(LINE).items() if not isinstance(value, str)}
    texts = dict.fromkeys(("part", "history", "row", "variant"), "")
    gap = replace(LINE, **{**empty, **texts, "gap": reason})
    config, paths, _ = written(tmp_path, [gap])
    table = build_table(config, paths, "bank_runtime")
    assert table.values
    assert {value.value for value in table.values} == {Gap(reason)}
    assert all(cell.text == "--" for row in table.layout.rows if not row.heading for cell in row.cells[1:])
    assert table.layout.notes.count(f"Not reported: {reason}.") == 1
    assert {value.value for value in bank_runtime.in_text(config, paths)} == {Gap(reason)}
    figure = build_figure(config, paths, f"bank_cost_{MODEL}")
    assert figure.values == ()


def test_a_row_that_did_not_fit_is_a_gap_of_its_own(tmp_path: Path) -> None:
    content = [line for line in lines("printed-serial") if line.row != "full"]
    reason = "row full of h0 (printed-serial): the device's memory does not suffice"
    content.append(replace(LINE, row="full", variant="printed-serial", history="h0", prefill_s=None, gap=reason))
    config, paths, _ = written(tmp_path, content, runtime={"variants": ["printed-serial"]})
    table = build_table(config, paths, "bank_runtime")
    gaps = [value for value in table.values if isinstance(value.value, Gap)]
    assert {value.condition for value in gaps} == {"Full"}
    assert f"Not reported: {reason}." in table.layout.notes


def test_a_reduced_shape_is_said_wherever_numbers_stand(tmp_path: Path) -> None:
    shape = "random weights, reduced shape: 12 layers of width 64, lengths divided by 32"
    content = lines(shape=shape, memory="resident", benchmark="")
    content += [
        replace(
            LINE, part="curve", row=row, variant=variant, entries=entries, shape=shape, memory="resident", prefill_s=0.1
        )
        for row, variant, entries in (
            ("native", "", 0),
            ("entries-64", "fast-serial", 64),
            ("entries-128", "fast-serial", 128),
        )
    ]
    config, paths, _ = written(tmp_path, content, "shapes", runtime={"variants": ["fast-serial"]})
    table = build_table(config, paths, "bank_runtime")
    assert {value.group for value in table.values} == {"random weights, reduced shape"}
    headings = [row.cells[0].text for row in table.layout.rows if row.heading]
    assert headings == [f"{name} shape (reduced): fast, serial" for name in ("Qwen3-4B", "Qwen3.5-4B", "Qwen3.5-9B")]
    notes = "\n".join(table.layout.notes)
    assert "Random weights, reduced shape: 12 layers of width 64" in notes
    assert "resident memory of the whole process" in notes
    assert all("reduced shape" in value.group for value in bank_runtime.in_text(config, paths))
    figure = build_figure(config, paths, f"bank_cost_{MODEL}")
    assert {value.group.partition(", STAIR")[0] for value in figure.values} == {"random weights, reduced shape"}
    assert any("reduced shape" in text.get_text() for text in figure.drawing.texts)


@pytest.mark.parametrize("grown", [False, True])
def test_the_figure_draws_what_its_csv_holds(tmp_path: Path, grown: bool) -> None:
    lengths = [1024 * 2**power for power in range(10)]
    content = [replace(LINE, part="curve", row="native", variant="", entries=0, prefill_s=0.07, peak_bytes=8 << 30)]
    for variant, slope in (("fast-serial", 1e-7), ("printed-serial", 7e-6)):
        content += [
            replace(
                LINE, part="curve", row=f"entries-{n}", variant=variant, entries=n, prefill_s=0.07 + slope * n,
                peak_bytes=(8 << 30) + 12_288 * n, kv_bytes=12_288 * n, transfer_s=n * 4e-6,
            )
            for n in lengths
        ]  # fmt: skip
    if grown:
        content += [
            replace(
                LINE, part="growth", row=f"turn-{t}", entries=16_384 * t, prefill_s=0.07 + t / 1e3, transfer_s=t / 1e3
            )
            for t in range(1, 17)
        ]
    config, paths, labels = written(tmp_path, content)
    figure = build_figure(config, paths, f"bank_cost_{MODEL}")
    figures.write(figure, labels, lambda suffix: paths.figure(figure.exhibit.name, suffix))
    axes = figure.drawing.axes
    assert [axis.get_title() for axis in axes[:2]] == ["T2 prefill (ms)", "Peak memory (GiB)"]
    assert len(axes) == (3 if grown else 2)
    drawn = {line.get_label(): line for line in axes[0].get_lines()}
    assert list(drawn["STAIR, fast read"].get_xdata()) == lengths
    fast = [
        v.value
        for v in figure.values
        if v.metric == "prefill" and v.group == "STAIR, fast read" and "entries" in v.condition
    ]
    assert list(drawn["STAIR, fast read"].get_ydata()) == fast
    frame = pd.read_csv(paths.figure(figure.exhibit.name, ".csv"), keep_default_na=False)
    assert set(frame["artifact"]) == {"fig:bank-cost"}
    assert set(frame["unit"]) == {"ms", "GiB", "MiB"}
