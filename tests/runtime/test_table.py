"""The numbers that follow from repetitions, beside a naive twin; and the table on disk."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from stair.stages.runtime.repetitions import (
    Line,
    history_medians,
    median_over_histories,
    paired_increases,
    read_lines,
    selected,
    write_lines,
)
from tests.runtime.runtime_cases import LINE


def repetitions(seed: int, row: str, histories: int = 5, count: int = 3) -> list[Line]:
    """A row's lines with random times, shuffled."""
    drawn = random.Random(seed)
    lines = [
        replace(
            LINE, row=row, history=f"h{history}", repetition=number, prefill_s=drawn.random(), total_s=drawn.random()
        )
        for history in range(histories)
        for number in range(1, count + 1)
    ]
    drawn.shuffle(lines)
    return lines


def grid(lines: list[Line], column: str) -> np.ndarray:
    """[histories, repetitions]."""
    return np.array(
        [
            [
                getattr(line, column)
                for line in sorted(lines, key=lambda line: line.repetition or 0)
                if line.history == name
            ]
            for name in sorted({line.history for line in lines})
        ]
    )


@pytest.mark.parametrize(("histories", "count"), [(1, 1), (4, 2), (5, 3), (16, 3)])
def test_medians_within_a_history_then_across(histories: int, count: int) -> None:
    full, native = (repetitions(seed, row, histories, count) for seed, row in ((1, "full"), (2, "native")))
    for column in ("prefill_s", "total_s"):
        ours, theirs = (np.median(grid(lines, column), axis=1) for lines in (full, native))
        assert median_over_histories(full, column) == pytest.approx(float(np.median(ours)))
        assert sorted(paired_increases(full, native, column)) == pytest.approx(sorted(ours - theirs))


def test_a_total_is_that_of_a_repetition_before_any_median() -> None:
    parts = [(1.0, 9.0), (2.0, 1.0), (3.0, 2.0)]
    lines = [
        replace(LINE, repetition=number, prefill_s=prefill, decode_s=decode, total_s=prefill + decode)
        for number, (prefill, decode) in enumerate(parts, start=1)
    ]
    assert history_medians(lines, "total_s") == {"h": 5.0}
    assert median_over_histories(lines, "prefill_s") == 2.0
    assert median_over_histories(lines, "decode_s") == 2.0


def test_an_increase_needs_every_history_on_both_sides() -> None:
    full, native = repetitions(1, "full"), repetitions(2, "native")
    assert paired_increases(full, [line for line in native if line.history != "h3"], "prefill_s") == []
    assert paired_increases([], [], "prefill_s") == []
    assert median_over_histories([replace(LINE, transfer_s=None)], "transfer_s") is None


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    lines = [LINE, replace(LINE, repetition=None, transfer_s=None, readout_norm=1 / 3, gap="it is, it says, absent")]
    write_lines(tmp_path / "runtime" / "m.csv", lines)
    assert read_lines(tmp_path / "runtime" / "m.csv") == lines
    assert selected(lines, row="full") == [LINE]
    assert median([line.entries or 0 for line in lines]) == 1


def test_a_table_that_is_not_there_or_another_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"m\.csv does not exist; run: snakemake runtime"):
        read_lines(tmp_path / "m.csv")
    (tmp_path / "m.csv").write_text("model,seconds\nm,1\n")
    with pytest.raises(ValueError, match=r"m\.csv does not have the columns part, model"):
        read_lines(tmp_path / "m.csv")
