"""The checks read responses a few at a time: whole, a condition's ids take gigabytes as Python numbers."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa

from stair.records.schemas import RESPONSES
from stair.records.tables import iterate_table, read_table, write_table
from stair.sessions.invariants import kept, turns_of

ROWS, TOKENS = 400, 5_000


def row(number: int) -> dict[str, Any]:
    empty: dict[Any, Any] = {pa.string(): "text", pa.bool_(): False, pa.float64(): 0.0}
    values = {field.name: empty.get(field.type, 0) for field in RESPONSES if not pa.types.is_list(field.type)}
    ids = {field.name: [100_000 + number] * TOKENS for field in RESPONSES if pa.types.is_list(field.type)}
    return values | ids | {"turn": 1 + number % 4, "response_tokens": TOKENS, "response": f"{number}</think>"}


def test_what_the_checks_keep_is_a_small_part_of_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "responses.parquet"
    write_table(path, RESPONSES, (row(number) for number in range(ROWS)))
    tracemalloc.start()
    try:
        turns = turns_of(kept(row, None) for row in iterate_table(path, RESPONSES))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    numbers = 8 * ROWS * TOKENS  # the list's slots alone
    assert len(turns) == ROWS and held < numbers / 20 and peak < numbers
    assert turns.equals(turns_of(kept(row, None) for row in read_table(path, RESPONSES)))
    assert turns.first_ids.nunique() == ROWS // 4 == turns.first_ids.notna().sum() and (turns.ids == TOKENS).all()
