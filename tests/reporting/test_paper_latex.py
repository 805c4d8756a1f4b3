"""Rows with the paper's own counts give the paper's LaTeX, line by line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from stair.config.resolve import resolve
from stair.reporting.from_rows import tables_from
from tests.reporting.compiling import assert_clean, compiled, needs_latex
from tests.reporting.printed import PAPER_TABLES, Printed, printed
from tests.statistics.paper_rows import rows_by_first_answer, rows_by_turn, shared_t1_rows, write_rows

ROOT = Path(__file__).parents[2]

FRAMES = {
    "by_first_answer": ("native_accuracy", "history_"),
    "by_turn": ("continuous_summary", "turns_"),
    "lora": ("lora_comparison", "lora_turns"),
    "shared_t1": ("shared_t1.", "bank_prefix_accuracy"),
}
"""Each frame of rows, and the tables whose counts it has, by their names' beginnings."""

IN_ONE_WAY = "training-overlap problems", "problems overlapping the training set"
"""The paper writes the note on AMC23 in two ways. Every table here has the second."""


def _rows(frame: str) -> tuple[str, pd.DataFrame]:
    """A frame, and the folder of scored rows that it belongs to."""
    match frame:
        case "by_first_answer":
            return "evaluation", rows_by_first_answer()
        case "by_turn":
            return "evaluation", rows_by_turn("tab:turns-.*")
        case "lora":
            return "evaluation", rows_by_turn("tab:lora-turns")
    return "shared_t1", shared_t1_rows()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of every frame, in a folder each."""
    folder = tmp_path_factory.mktemp("frames")
    for frame in FRAMES:
        study, rows = _rows(frame)
        write_rows(rows, folder / frame / study)
        tables_from(folder / frame, folder / frame / "out", resolve(ROOT, {"run": "paper"}))
    return folder


@pytest.fixture(scope="module")
def ours(folder: Path) -> dict[str, Printed]:
    """Our tables by their labels."""
    files = [
        path
        for frame, names in FRAMES.items()
        for path in sorted((folder / frame / "out").glob("*.tex"))
        if path.name.startswith(names)
    ]
    return printed("\n".join(path.read_text(encoding="utf-8") for path in files))


PAPER = printed(PAPER_TABLES.read_text(encoding="utf-8"))


def test_every_table_of_response_rows_is_there(ours: dict[str, Printed]) -> None:
    assert sorted(ours) == sorted(PAPER)
    assert len(PAPER) == 13
    assert sum(len(table.lines) for table in PAPER.values()) > 200


@pytest.mark.parametrize("label", sorted(PAPER))
def test_a_table_is_the_papers(ours: dict[str, Printed], label: str) -> None:
    """Caption, lengths, columns, every line with its emphasis, and the notes. No cell is left out."""
    paper = PAPER[label]
    notes = tuple(note.replace(*IN_ONE_WAY) for note in paper.notes)
    assert ours[label] == replace(paper, notes=notes)


@needs_latex
def test_every_file_compiles_alone(folder: Path, tmp_path: Path) -> None:
    """Each file in a document of its own; nothing is wider than the page of the paper's style."""
    files = sorted(folder.glob("*/out/*.tex"))
    assert {path.stem for path in files} >= {"intervals", "comparisons", "shared_t1", "continuous_summary"}
    for path in files:
        place = tmp_path / path.parent.parent.name / path.stem
        place.mkdir(parents=True)
        assert_clean(compiled(path.read_text(encoding="utf-8"), place))
