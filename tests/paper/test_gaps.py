"""Where rows are missing, tables keep all other cells, mark no winner without a competitor, and name each cause once."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from stair.config.resolve import resolve
from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell
from stair.paper.make import tables_from
from stair.paper.tables.table import Table
from stair.records.manifest import manifest_path
from tests.paper.sources import table_of
from tests.paper.test_several_pairs import LABELS, LORA, PAIRS, STUDY, blocks, of_pair
from tests.paper.test_tables import ROOT, cells, rows, summary
from tests.statistics.paper_rows import shared_t1_rows, write_rows


def without(frame: pd.DataFrame, **place: object) -> pd.DataFrame:
    """The rows without those at a place; there must be some."""
    lost = pd.Series(True, index=frame.index)
    for column, key in place.items():
        lost &= frame[column] == key
    assert lost.any()
    return frame[~lost]


def study(*pairs: tuple[str, str], names: dict[str, str] = STUDY) -> pd.DataFrame:
    return pd.concat([of_pair(*pair, names) for pair in pairs], ignore_index=True)


def comparison(frame: pd.DataFrame) -> Table:
    table = table_of("shared_t1", frame, LABELS)
    assert table is not None
    return table


def texts(table: Table, heading: str | None = None) -> dict[str, list[str]]:
    """The cells of each row, by the row's name; with a heading, of the rows below it."""
    found = blocks(table)[heading] if heading else table.layout.rows
    return {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in found}


@pytest.mark.parametrize("pairs", [PAIRS, PAIRS[1:2]])
def test_a_study_without_stair_shows_all_its_other_cells(pairs: tuple[tuple[str, str], ...]) -> None:
    table = comparison(without(study(*pairs), benchmark="c", condition="stair"))
    headings = ["First on Bench", "First on Other†", "Second on Bench"] if len(pairs) > 1 else []
    assert [row.cells[0].text for row in table.layout.rows if row.heading] == headings
    assert (texts(table, "First on Other†") if headings else texts(table)) == {
        "Native": ["6.25", "0.00", "25.00"],
        "Direct reflected-read": ["12.50", "+6.25", "25.00"],
        "STAIR": [DASH] * 3,
    }
    assert [note for note in table.layout.notes if "Not reported" in note] == [
        "Not reported: m, c, stair: no responses."
    ]


def test_a_study_without_native_shows_scores_and_no_differences() -> None:
    table = comparison(without(study(*PAIRS[:2]), benchmark="c", condition="native"))
    found = texts(table, "First on Other†")
    assert list(found) == ["Native", "Direct reflected-read", "STAIR"]
    assert found["Native"] == [DASH] * 3
    assert [found[name][:2] for name in ("Direct reflected-read", "STAIR")] == [["12.50", DASH], ["18.75", DASH]]
    assert table.layout.notes[1:] == ("Not reported: m, c, native: no responses.",)


def test_any_one_condition_is_a_study() -> None:
    """First turns alone are none."""
    for condition in ("direct_read", "stair_prefix-2048", "stair"):
        one = without(study(*PAIRS[1:2]), condition="native")
        table = comparison(one[one["condition"] == condition])
        assert {"Native", "STAIR"} <= {row.cells[0].text for row in table.layout.rows}
        assert "Not reported: m, c, native: no responses." in table.layout.notes
    first = study(*PAIRS[:1], names={"native": "t1"})
    assert table_of("shared_t1", first, LABELS) is None


def test_bank_lengths_come_from_prefixes_where_the_full_bank_has_no_rows() -> None:
    frame = without(study(*PAIRS[:1]), condition="stair").assign(bank_tokens=3_000)
    table = table_of("bank_prefix_accuracy", frame, LABELS)
    assert table is not None
    found = texts(table)
    assert found["STAIR 2K"][0] == "16/16"
    assert found["STAIR Full"] == [DASH] * 3
    assert table.layout.notes == ("Not reported: m, b, stair: no responses.",)


def test_the_named_reason_of_a_missing_response_stands_below_the_studys_table(tmp_path: Path) -> None:
    model, benchmark = "qwen3.5-4b", "aime2025"
    frame = shared_t1_rows()
    lost = frame[(frame["condition"] == "direct_read") & (frame["turn"] == 2)].iloc[0]
    write_rows(frame.drop(index=lost.name), tmp_path / "shared_t1")
    manifest = manifest_path(tmp_path / "shared_t1" / model / benchmark / "direct_read.parquet")
    manifest.parent.mkdir(parents=True, exist_ok=True)
    gap = {"problem_id": lost["problem_id"], "sample": int(lost["sample"]), "turn": 2, "reason": "the driver stops"}
    manifest.write_text(json.dumps({"missing": [gap]}))
    tables_from(tmp_path, tmp_path / "out", resolve(ROOT, {"run": "paper"}))
    (note,) = [line for line in (tmp_path / "out" / "shared_t1.md").read_text().splitlines() if "Not reported" in line]
    assert note.endswith("(the driver stops).")


def bold(found: dict[str, list[Cell]], column: int) -> list[str]:
    return [name for name, row in found.items() if row[column].bold]


LOST = rows("b", {("vanilla", 1): 8, ("native", 1): 8, ("native", 0): 4, ("stair", 1): 8, ("stair", 0): 12})


def test_nothing_is_better_than_a_dash() -> None:
    """STAIR's T3 is gone, and Native has no competitor there and in the mean."""
    lost = without(LOST, condition="stair", turn=3)
    assert bold(cells(summary(LOST)), 0) == ["STAIR"]
    assert bold(cells(summary(lost)), 0) == []
    by_turn = table_of("turns_m", lost, LABELS)
    assert by_turn is not None
    # Avg@4 of T2, T3, T4 and their mean.
    assert [bold(cells(by_turn), column) for column in (2, 4, 6, 8)] == [["STAIR"], [], ["STAIR"], []]


def test_history_marks_no_winner_over_a_dash() -> None:
    lost = without(LOST, condition="stair", turn=3)
    by_group = table_of("history_m", lost, LABELS)
    assert by_group is not None
    marked = {
        (row.cells[0].text, row.cells[1].text): [cell.bold for cell in row.cells[3:]]
        for row in by_group.layout.rows
        if not row.heading
    }
    assert marked["T3", "Correct"] == marked["T3", "Wrong"] == [False] * 3
    assert any(marked["T2", "Correct"]) and any(marked["T4", "Wrong"])


def test_the_pooled_history_marks_no_winner_over_a_dash() -> None:
    labels = Labels(mathematical=frozenset({"math500"}))
    for frame, expected in ((LOST, True), (without(LOST, condition="stair", turn=3), False)):
        pooled = table_of("history_correctness_summary", frame.assign(benchmark="math500"), labels)
        assert pooled is not None
        assert any(cell.bold for row in pooled.layout.rows for cell in row.cells) is expected


def test_the_best_of_several_needs_two_numbers() -> None:
    frame = study(*PAIRS[:1], names=LORA)
    two = without(without(frame, condition="native", turn=3), condition="lora", turn=3)
    one = without(two, condition="stair", turn=3)
    for rows_of, expected in ((two, ["LoRA + STAIR"]), (one, [])):
        table = table_of("lora_turns", rows_of, LABELS)
        assert table is not None
        # Avg@4 of T3.
        assert bold(cells(table), 2) == expected


@pytest.mark.parametrize("name", ["lora_turns", "lora_comparison"])
def test_a_condition_that_is_absent_as_a_whole_is_named_once(name: str) -> None:
    """The reasons of other gaps are not crowded out by it."""
    frame = study(*PAIRS[:1], names=LORA).assign(model="qwen3-4b-instruct")
    lost = without(without(frame, condition="lora_stair"), condition="native", turn=3, sample=2)
    table = table_of(name, lost, LABELS)
    assert table is not None
    assert sorted(table.layout.notes) == [
        "Not reported: qwen3-4b-instruct, b, lora_stair: no responses.",
        "Not reported: qwen3-4b-instruct, b, native, T3: 4 of 16 responses missing, first problem 'p0', sample 2.",
    ]
