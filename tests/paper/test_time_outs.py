"""The note of time-outs below a table counts the rows behind the table's own cells."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from stair.paper.labels import Labels
from stair.paper.run_notes import with_time_outs
from stair.paper.tables import accuracy, history, shared_t1, uncertainty
from stair.paper.tables.table import Table, nothing
from stair.statistics.grid import Responses
from tests.paper.test_tables import rows

LABELS = Labels(mathematical=frozenset({"b"}))
COUNTS = {("vanilla", 1): 8, ("native", 1): 8, ("native", 0): 4, ("stair", 1): 8, ("stair", 0): 12}
GRID = 16
"""Rows of one benchmark, condition and turn."""


def evaluation() -> pd.DataFrame:
    """Two benchmarks with the three conditions, and LoRA on the first of them."""
    first = rows("b", COUNTS)
    low_rank = first[first["condition"] == "stair"].assign(condition="lora")
    return pd.concat([first, low_rank, rows("c", COUNTS)], ignore_index=True).assign(verdict="wrong")


def study() -> pd.DataFrame:
    """The shared T1 history, with two controls and a prefix."""
    first = rows("b", COUNTS)
    stair = first[first["condition"] == "stair"]
    controls = ("direct_read", "random_reflector-0", "stair_prefix-2048")
    frames = [first[first["condition"] != "vanilla"], *(stair.assign(condition=name) for name in controls)]
    return pd.concat(frames, ignore_index=True).assign(verdict="wrong")


def tables(frame: pd.DataFrame, *, shared: bool) -> list[Table]:
    responses = Responses.from_frame(frame)
    if shared:
        made = [
            shared_t1.build(responses, LABELS),
            shared_t1.build_prefixes(responses, frame, LABELS),
            uncertainty.shared_t1_intervals(responses, LABELS),
            uncertainty.shared_t1_comparisons(responses, LABELS),
        ]
    else:
        made = [
            accuracy.summary(responses, LABELS),
            history.transitions(responses, LABELS, "m", "b"),
            history.pooled(responses, LABELS),
            history.history(responses, LABELS, "m"),
            accuracy.turns(responses, LABELS, "m"),
            accuracy.lora_comparison(responses, LABELS),
            accuracy.lora_turns(responses, LABELS),
            uncertainty.intervals(responses, LABELS),
            uncertainty.comparisons(responses, LABELS),
        ]
    assert all(made)
    return [table for table in made if table is not None]


SIZES = {
    # Vanilla's T1 and three turns of Native and STAIR, of both benchmarks.
    "continuous_summary": 2 * 7,
    "history_m": 2 * 7,
    "history_correctness_summary": 7,
    "native_accuracy": 4,
    "turns_m": 2 * 9,
    "lora_comparison": 9,
    "lora_turns": 9,
    "intervals": 2 * 9 + 4,
    "comparisons": 2 * 6 + 3,
    "shared_t1": 4,
    "bank_prefix_accuracy": 3,
    "shared_t1_intervals": 5,
    "shared_t1_comparisons": 5,
}
"""How many grids of rows each table shows."""


@pytest.mark.parametrize(
    ("benchmark", "condition", "turn", "noted"),
    [
        (
            *("b", "vanilla", 1),
            "continuous_summary history_m history_correctness_summary native_accuracy turns_m intervals",
        ),
        ("b", "native", 1, "turns_m intervals"),
        (
            *("b", "native", 3),
            "continuous_summary history_m history_correctness_summary native_accuracy turns_m lora_comparison lora_turns "
            "intervals comparisons",
        ),
        ("c", "stair", 4, "continuous_summary history_m turns_m intervals comparisons"),
        ("b", "lora", 2, "lora_comparison lora_turns intervals comparisons"),
        ("b", "lora", 1, "intervals"),
    ],
)
def test_a_table_notes_what_timed_out_in_its_own_cells(benchmark: str, condition: str, turn: int, noted: str) -> None:
    frame = evaluation()
    assert_noted(frame, (benchmark, condition, turn), noted.split(), shared=False)


@pytest.mark.parametrize(
    ("condition", "turn", "noted"),
    [
        ("stair", 2, "shared_t1 bank_prefix_accuracy shared_t1_intervals shared_t1_comparisons"),
        ("random_reflector-0", 2, "shared_t1 shared_t1_intervals shared_t1_comparisons"),
        ("stair_prefix-2048", 2, "bank_prefix_accuracy shared_t1_intervals shared_t1_comparisons"),
        ("stair", 1, ""),
        ("stair", 3, ""),
    ],
)
def test_the_study_notes_what_timed_out_at_its_turn(condition: str, turn: int, noted: str) -> None:
    assert_noted(study(), ("b", condition, turn), noted.split(), shared=True)


def assert_noted(frame: pd.DataFrame, place: tuple[str, str, int], noted: list[str], *, shared: bool) -> None:
    benchmark, condition, turn = place
    there = (frame["benchmark"] == benchmark) & (frame["condition"] == condition) & (frame["turn"] == turn)
    assert there.sum() == GRID
    late = frame.copy()
    late.loc[late.index[there][:2], "verdict"] = "timeout"
    for table in tables(frame, shared=shared):
        assert with_time_outs(table, frame) == table, "nothing timed out"
        notes = with_time_outs(table, late).layout.notes
        if table.name in noted:
            assert notes[:-1] == table.layout.notes
            assert notes[-1] == (
                f"The comparison of answers timed out for 2 of this table's {GRID * SIZES[table.name]:,} scored rows; "
                "a time-out counts as wrong."
            )
        else:
            assert notes == table.layout.notes, table.name


def test_where_verdicts_are_not_known_nothing_is_said() -> None:
    frame = evaluation().assign(verdict="timeout")
    table = next(table for table in tables(frame, shared=False) if table.name == "lora_turns")
    assert with_time_outs(table, frame) != table
    assert with_time_outs(table, frame.drop(columns="verdict")) == table
    assert with_time_outs(table, frame.assign(verdict=None)) == table
    unknown_elsewhere = frame.assign(verdict=frame["verdict"].where(frame["benchmark"] == "b"))
    assert with_time_outs(table, unknown_elsewhere) == with_time_outs(table, frame)
    empty = nothing("lora_turns", replace(LABELS, note=None))
    assert with_time_outs(empty, frame) == empty
