"""From scored rows to the main table: its numbers, its marks, its gaps."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.labels import Labels
from stair.paper.latex import latex
from stair.paper.layout import Cell, Row, markdown
from stair.paper.make import build_table, write
from stair.paper.tables.table import Table, best, nothing
from stair.paper.terminal import page
from stair.paper.tidy import COLUMNS, tidy_csv
from stair.statistics.grid import Gap
from stair.statistics.values import Value
from tests.paper.sources import source_of, table_of
from tests.statistics.paper_rows import rows_of_evaluation

ROOT = Path(__file__).parents[2]
LABELS = Labels(
    models={"m": "Model"},
    benchmarks={"b": "Bench", "c": "Other"},
    conditions={"vanilla": "Vanilla", "native": "Native", "stair": "STAIR"},
    marked=frozenset({"c"}),
    note="A note of the run.",
)
TURNS = {"vanilla": (1,), "native": (1, 2, 3, 4), "stair": (1, 2, 3, 4)}


def rows(benchmark: str, correct: dict[tuple[str, int], int]) -> pd.DataFrame:
    """Four problems with four samples each; so many of the sixteen responses of a (condition, turn) are correct."""
    records = []
    for condition, turns in TURNS.items():
        for turn in turns:
            for number, (problem, sample) in enumerate(product(range(4), range(4))):
                right = number < correct.get((condition, turn), correct.get((condition, 0), 0))
                records.append(
                    {
                        "model": "m",
                        "benchmark": benchmark,
                        "condition": condition,
                        "session_id": f"s-{(problem - turn) % 4}",
                        "turn": turn,
                        "sample": sample,
                        "problem_id": f"p{problem}",
                        "correct": right,
                    }
                )
    return pd.DataFrame(records)


def summary(*frames: pd.DataFrame) -> Table:
    table = table_of("continuous_summary", pd.concat(frames, ignore_index=True), LABELS)
    assert table is not None
    return table


def cells(table: Table) -> dict[str, list[Cell]]:
    """The number cells of each condition's row."""
    return {row.cells[0].text: list(row.cells[1:]) for row in table.layout.rows if not row.heading}


def marks(cell: Cell) -> tuple[str, bool, bool]:
    return cell.text, cell.bold, cell.underline


def test_means_over_later_turns_ties_and_the_vanilla_reference() -> None:
    # Native 8, 9, 10 of 16 and STAIR 9, 9, 9: both 56.25 on average; Vanilla 8 of 16.
    table = summary(
        rows("b", {("vanilla", 1): 8, ("native", 2): 8, ("native", 3): 9, ("native", 4): 10, ("stair", 0): 9})
    )
    found = cells(table)
    assert [marks(cell) for cell in found["Vanilla"]] == [("50.00", False, False), ("50.00", False, False)]
    assert marks(found["Native"][0]) == ("56.25", True, False), "a tie is bold twice; only STAIR is underlined"
    assert marks(found["STAIR"][0]) == ("56.25", True, True)
    # Pass@4: of four problems 2, 3, 3 and 3, 3, 3.
    assert marks(found["Native"][1]) == ("66.67", False, False)
    assert marks(found["STAIR"][1]) == ("75.00", True, True)
    assert r"\underline{\textbf{56.25}}" in latex(table.layout)
    assert "| **<u>56.25</u>** | **<u>75.00</u>** |" in markdown(table.layout)


def test_stair_that_only_equals_vanilla_is_not_underlined() -> None:
    found = cells(summary(rows("b", {("vanilla", 1): 8, ("native", 0): 4, ("stair", 0): 8})))
    assert marks(found["STAIR"][0]) == ("50.00", True, False)
    assert marks(found["Native"][0]) == ("25.00", False, False)


def test_vanilla_is_never_bold() -> None:
    found = cells(summary(rows("b", {("vanilla", 1): 16, ("native", 0): 1, ("stair", 0): 1})))
    assert not any(cell.bold for cell in found["Vanilla"])


@pytest.fixture
def gapped() -> Table:
    """STAIR lacks one response at T3 of the second benchmark."""
    other = rows("c", {("vanilla", 1): 8, ("native", 0): 4, ("stair", 0): 8})
    missing = (
        (other["condition"] == "stair") & (other["turn"] == 3) & (other["problem_id"] == "p2") & (other["sample"] == 1)
    )
    assert missing.sum() == 1
    return summary(rows("b", {("native", 0): 4, ("stair", 0): 8}), other[~missing])


def test_a_gap_is_a_dash_with_its_reason(gapped: Table) -> None:
    found = cells(gapped)
    assert [cell.text for cell in found["STAIR"]] == ["50.00", "50.00", "--", "--"]
    assert marks(found["Native"][2]) == ("25.00", False, False), "nothing is there to be better than"
    reason = "m, c, stair, T3: 1 of 16 responses missing, first problem 'p2', sample 1"
    assert f"Not reported: {reason}." in gapped.layout.notes
    assert "| **STAIR** | **<u>50.00</u>** | **<u>50.00</u>** | – | – |" in markdown(gapped.layout)
    assert "\nNot reported: m, c, stair, T3: 1 of 16 responses missing" in markdown(gapped.layout)
    text = latex(gapped.layout)
    assert r"\underline{\textbf{50.00}} & -- & --\\" in text
    assert "Not reported: m, c, stair, T3" in text


def test_notes_tell_of_left_out_problems_and_of_the_run(gapped: Table) -> None:
    assert gapped.layout.notes[0] == "† Other excludes problems overlapping the training set, leaving 4 problems."
    assert gapped.layout.notes[-1] == "A note of the run."
    assert gapped.layout.header[0] == (("", 1), ("Bench", 2), ("Other†", 2))
    assert "Other$^{\\dagger}$" in latex(gapped.layout)


def test_the_csv_is_tidy_with_empty_values_for_gaps(gapped: Table, tmp_path: Path) -> None:
    write(gapped, LABELS, lambda suffix: tmp_path / f"table{suffix}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv", "table.html", "table.md", "table.tex"]
    with open(tmp_path / "table.csv", newline="") as handle:
        found = list(csv.DictReader(handle))
    assert (
        tuple(found[0])
        == COLUMNS
        == ("artifact", "model", "benchmark", "condition", "turn", "group", "metric", "value", "unit")
    )
    assert len(found) == 3 * 2 * 2
    assert {(row["artifact"], row["model"], row["unit"]) for row in found} == {("tab:continuous-summary", "Model", "%")}
    by_place = {(row["benchmark"], row["condition"], row["turn"], row["metric"]): row["value"] for row in found}
    assert by_place["Other", "STAIR", "T2-T4", "Avg@4"] == by_place["Other", "STAIR", "T2-T4", "Pass@4"] == ""
    assert by_place["Bench", "STAIR", "T2-T4", "Avg@4"] == "50.0"
    assert by_place["Bench", "Vanilla", "T1", "Avg@4"] == "0.0"


def test_the_csv_has_full_precision() -> None:
    text = tidy_csv("tab:x", [Value("m", "b", "stair", "T2", "", "Avg@4", 100 / 3, "%")], LABELS)
    (row,) = csv.DictReader(io.StringIO(text))
    assert float(row["value"]) == 100 / 3


def test_a_pooled_number_names_its_models_where_they_are_not_the_papers() -> None:
    pooled = [Value("", "", "", "T2-T4", "T1 correct", "n", 7, "responses")]
    several = replace(LABELS, models={"m": "Tiny M", "n": "Tiny N"})
    assert "\ntab:x,Tiny M + Tiny N,,,T2-T4," in tidy_csv("tab:x", pooled, several)
    assert "\ntab:x,,,,T2-T4," in tidy_csv("tab:x", pooled, replace(several, note=None))


def test_the_papers_own_counts_give_the_papers_table_by_a_join(tmp_path: Path) -> None:
    """Rows with the paper's counts, through the run's labels: the CSV joins the paper's values as they are spelled."""
    config = resolve(ROOT, {"run": "paper"})
    table = table_of("continuous_summary", rows_of_evaluation(), Labels.of(config))
    assert table is not None
    ours = pd.read_csv(
        io.StringIO(tidy_csv(table.exhibit.artifact, table.values, Labels.of(config))), dtype={"group": str}
    )
    paper = pd.read_csv(ROOT / "stair/paper/paper_values.csv", dtype={"value": str, "group": str})
    keys = ["artifact", "model", "benchmark", "condition", "turn", "metric", "unit"]
    paper = paper[
        (paper["artifact"] == "tab:continuous-summary") & (paper["metric"] == "Avg@4") & (paper["turn"] != "T1")
    ]
    joined = paper.merge(ours, on=keys, how="left", suffixes=("", "_ours"), validate="one_to_one")
    assert len(joined) == 3 * 4 * 2
    for row in joined.itertuples():
        assert Decimal(str(round(row.value_ours, 9))).quantize(Decimal(row.value)) == Decimal(row.value), row
    headings = {row.cells[0].text for row in table.layout.rows if row.heading}
    assert headings == {"Qwen3-4B Instruct", "Qwen3.5-4B", "Qwen3.5-9B"}, "as the paper's tables print models"


def test_a_table_that_is_not_known_names_those_that_are() -> None:
    config = resolve(ROOT, {"run": "tiny"})
    with pytest.raises(ValueError, match=r"there is no table 'nothing' \(there are: history_correctness_summary"):
        build_table(config, RunPaths.of(config), "nothing")
    with pytest.raises(ValueError, match=r"there is no table 'intervls' \(did you mean intervals\?\)"):
        build_table(config, RunPaths.of(config), "intervls")


def test_no_rows_no_table() -> None:
    frame = rows("b", {})
    frame["condition"] = "another"
    only_one_turn = frame[frame["turn"] == 1].drop_duplicates(["problem_id", "sample"])
    assert table_of("continuous_summary", only_one_turn, LABELS) is None


def test_marks_ignore_what_is_smaller_than_any_difference() -> None:
    column = {"a": 56.25, "b": 56.25 + 1e-12, "c": 56.24, "d": Gap("why")}
    assert best(column) == {"a", "b"}
    assert best({"a": 1.0, "d": Gap("why")}) == set()


def test_a_key_without_a_label_stands_for_itself() -> None:
    table = table_of("continuous_summary", rows("b", {}), Labels())
    assert table is not None
    assert isinstance(table.layout.rows[0], Row)
    assert table.layout.rows[0].cells[0].text == "m"
    assert {row.cells[0].text for row in table.layout.rows[1:]} == {"Vanilla", "Native", "STAIR"}, "the paper's labels"
    assert Labels().condition("mine") == "mine"


def test_a_table_of_nothing_says_so_in_every_form() -> None:
    table = nothing(source_of("comparisons", rows("b", {}), LABELS))
    assert "has not all the conditions" in markdown(table.layout) and "A note of the run." in markdown(table.layout)
    assert "\\label{comparisons}" in latex(table.layout)
    assert "Nothing to show" in page(markdown(table.layout), 80).plain
    assert tidy_csv(table.name, table.values, LABELS).count("\n") == 1
