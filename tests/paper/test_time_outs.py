"""The note of time-outs below a table counts the scored rows that the table shows."""

from __future__ import annotations

import pandas as pd
import pytest

from stair.paper.labels import Labels
from stair.paper.tables.run_notes import with_time_outs
from tests.paper.sources import source_of, table_of
from tests.paper.test_tables import rows

LABELS = Labels(mathematical=frozenset({"b"}))
COUNTS = {("vanilla", 1): 8, ("native", 1): 8, ("native", 0): 4, ("stair", 1): 8, ("stair", 0): 12}
GRID = 16
"""Rows of one benchmark, condition and turn."""


@pytest.fixture
def frame() -> pd.DataFrame:
    """Two benchmarks with the three conditions, and LoRA on the first of them."""
    first = rows("b", COUNTS)
    low_rank = first[first["condition"] == "stair"].assign(condition="lora")
    return pd.concat([first, low_rank, rows("c", COUNTS)], ignore_index=True).assign(verdict="wrong")


def note(name: str, frame: pd.DataFrame) -> tuple[str, ...]:
    """The notes that time-outs add."""
    table, shown = table_of(name, frame, LABELS), source_of(name, frame, LABELS).rows
    assert table is not None
    return with_time_outs(table, shown).layout.notes[len(table.layout.notes) :]


@pytest.mark.parametrize(
    ("name", "noted", "grids"),
    [("continuous_summary", True, 18), ("turns_m", True, 18), ("intervals", True, 22), ("lora_turns", False, 12)],
)
def test_a_table_notes_what_timed_out_in_its_own_rows(frame: pd.DataFrame, name: str, noted: bool, grids: int) -> None:
    """On the benchmark without LoRA."""
    assert note(name, frame) == ()
    there = frame.index[(frame["benchmark"] == "c") & (frame["condition"] == "stair") & (frame["turn"] == 4)]
    frame.loc[there[:2], "verdict"] = "timeout"
    text = (
        f"The comparison of answers timed out for 2 of this table's {GRID * grids:,} scored rows; "
        "a time-out counts as wrong."
    )
    assert note(name, frame) == ((text,) if noted else ())


def test_where_verdicts_are_not_known_nothing_is_said(frame: pd.DataFrame) -> None:
    late = frame.assign(verdict="timeout")
    assert note("lora_turns", late)
    assert not note("lora_turns", late.drop(columns="verdict"))
    assert not note("lora_turns", late.assign(verdict=None))
    unknown_elsewhere = late.assign(verdict=late["verdict"].where(late["benchmark"] == "b"))
    assert note("lora_turns", unknown_elsewhere) == note("lora_turns", late)
