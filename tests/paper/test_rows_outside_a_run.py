"""`stair tables --responses`: rows of a run have its labels and its note, all other rows the paper's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stair.cli.main import main
from stair.config.resolve import RESOLVED, dump, resolve
from tests.statistics.paper_rows import rows_by_turn, shared_t1_rows, write_rows

ROOT = Path(__file__).parents[2]
PAPERS = ("Qwen3-4B", "Qwen3.5-4B", "AIME 2025", "MATH-500")


def tables(monkeypatch: pytest.MonkeyPatch, responses: Path, out: Path) -> dict[str, str]:
    """The files that the command makes."""
    monkeypatch.setattr(sys, "argv", ["stair", "tables", "--responses", str(responses), "--out", str(out)])
    with pytest.raises(SystemExit, match="0"):
        main()
    return {file.name: file.read_text() for file in out.iterdir()}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of rows, laid out as in a run."""
    folder = tmp_path_factory.mktemp("rows")
    study = shared_t1_rows()
    write_rows(rows_by_turn("tab:lora-turns"), folder / "evaluation")
    write_rows(study[study["condition"].isin(["native", "bank_free"])], folder / "shared_t1")
    return folder


@pytest.fixture
def run(rows: Path) -> Iterator[Path]:
    """The same folder as a run of other models."""
    (rows / RESOLVED).write_text(dump(resolve(ROOT, {"run": "tiny"})))
    yield rows
    (rows / RESOLVED).unlink()


@pytest.mark.parametrize(("part", "table"), [("evaluation", "lora_turns"), ("shared_t1", "shared_t1")])
def test_a_part_of_a_run_has_the_runs_labels_and_note(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, table: str
) -> None:
    monkeypatch.chdir(run / part)
    found = tables(monkeypatch, Path(), tmp_path)
    assert f"{table}.md" in found
    for name, text in found.items():
        assert "Tiny Qwen3" in text, name
        assert not [paper for paper in PAPERS if paper in text.replace(f"Tiny {paper}", "")], name
        assert "Tiny models on" in text or name.endswith(".csv"), name


def test_rows_outside_a_run_have_the_papers_labels(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key means the paper's model where no run says otherwise, so the CSVs join with the paper's values."""
    found = tables(monkeypatch, rows, tmp_path)
    assert "Qwen3-4B" in found["intervals.md"] and "AIME 2025" in found["intervals.md"]
    assert not [name for name, text in found.items() if "Tiny" in text]
