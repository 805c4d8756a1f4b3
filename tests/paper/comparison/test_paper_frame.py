"""Rows with the paper's own counts agree with the paper; rows of another truth do not."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.comparison.compared import Compared, Verdict
from stair.paper.comparison.printed import SAMPLED, PrintedPlace
from stair.paper.comparison.run_facts import RunFacts
from stair.paper.comparison.stage import COLUMNS, comparison_csv, structure_note, summary, write
from stair.paper.exhibits import named
from stair.paper.paper_labels import printed_at
from stair.paper.report.outcome import comparison_of, gaps_of
from stair.statistics.grid import Responses
from tests.paper.paper_frame import ROOT, WITHOUT_AMC23, Frame, paper_config, swapped
from tests.statistics.paper_rows import rows_of_evaluation

NOTHING = (Responses({}, 4, {}), pd.DataFrame())
"""The study with a shared T1 history, of a run without it."""


@pytest.fixture(scope="module")
def compared(paper_frame: Frame) -> list[Compared]:
    return paper_frame.compared()


def test_every_number_of_response_rows_agrees(compared: list[Compared]) -> None:
    assert len(compared) == 1085
    counts = Counter(each.verdict for each in compared if each.printed.kind in SAMPLED)
    # The four gains of section 4.2 are in the table in_text, which rows alone do not give.
    assert counts == {Verdict.AGREES: 939, Verdict.NOT_RUN: 4}
    assert Counter(each.verdict for each in compared)[Verdict.DIFFERS] == 0
    assert {each.printed.place.artifact for each in compared if each.verdict is Verdict.NOT_RUN} >= {
        "tab:bank-runtime",
        "fig:historical-computation",
        "app:replay-construction",
    }
    assert all(each.reason for each in compared)


def test_the_file_has_a_line_for_each_value_and_equal_bytes(paper_frame: Frame, compared: list[Compared]) -> None:
    lines = list(csv.DictReader(comparison_csv(compared).splitlines()))
    assert tuple(lines[0]) == COLUMNS and len(lines) == 1085
    assert comparison_csv(paper_frame.compared()) == comparison_csv(compared)
    first = lines[8]
    assert (first["paper"], float(first["ours"])) == ("95.00", 95.0)
    assert float(first["low"]) < 95.0 < float(first["high"])
    assert (first["kind"], first["verdict"]) == ("rate", "agrees")


def test_the_summary_counts_kinds_and_verdicts(compared: list[Compared]) -> None:
    text = summary(compared)
    assert "| rate | 620 |  |  |  |  |" in text
    assert re.search(r"- \d+ of .*Table \d+.*: no table or figure of the run gives this number\n", text)
    assert "of the paper: verdicts" not in text and len(text.splitlines()) < 40


def test_the_report_counts_each_part_of_the_paper_once(compared: list[Compared], tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write(compared, paper_config(), paths.comparison())
    counted = comparison_of(paths, [named(paper_config(), "table", "turns_qwen3.5-4b")])
    assert counted is not None and sum(counted["total"]) == 1085
    artifacts = [artifact for artifact, _, _ in counted["rows"]]
    assert artifacts == list(dict.fromkeys(printed_at(each.printed.place.artifact) for each in compared))
    assert {"Table 1", "Table 17", "Figure 2", "section 4.2"} <= {*artifacts}
    anchors = {artifact: anchor for artifact, anchor, _ in counted["rows"] if anchor}
    assert anchors == {"Table 16": "table-turns_qwen3.5-4b"}


def test_the_report_says_each_reason_of_missing_values_once(compared: list[Compared], tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write(compared, paper_config(), paths.comparison())
    missing = [each for each in compared if each.verdict is Verdict.NOT_RUN]
    gaps = gaps_of(paths)
    assert [gap["count"] for gap in gaps] == sorted(Counter(each.reason for each in missing).values(), reverse=True)
    for gap in gaps:
        where = [printed_at(each.printed.place.artifact) for each in missing if each.reason == gap["reason"]]
        assert (gap["count"], gap["places"]) == (len(where), list(dict.fromkeys(where)))


def test_another_truth_differs(tmp_path: Path) -> None:
    """STAIR and Native of one model are swapped: numbers of that model differ, and those that it is pooled in."""
    compared = Frame.of(tmp_path, swapped(rows_of_evaluation(), "qwen3.5-4b"), None, paper_config()).compared()
    different = [each for each in compared if each.verdict is Verdict.DIFFERS]
    assert {each.printed.place.model for each in different} == {"Qwen3.5-4B", ""}
    assert {each.printed.place.condition for each in different} <= {"Native", "STAIR"}
    assert all(each.p_value is not None and each.p_value < 0.05 for each in different)
    write(compared, paper_config(), tmp_path / "comparison.csv")
    assert "worst" in (tmp_path / "comparison.md").read_text()


def test_reasons_name_missing_responses_and_absent_tables(tmp_path: Path) -> None:
    rows = rows_of_evaluation().query("model == 'qwen3.5-4b' and benchmark == 'aime2025'")
    lost = (rows["condition"] == "stair") & (rows["turn"] == 3) & (rows["problem_id"] == "problem-5")
    compared = Frame.of(tmp_path, rows[~(lost & (rows["sample"] == 1))], None, paper_config()).compared()
    reasons = {
        each.printed.place[:5]: each.reason
        for each in compared
        if each.verdict is Verdict.NOT_RUN and each.printed.place.model == "Qwen3.5-4B"
    }
    summary_mean = ("tab:continuous-summary", "Qwen3.5-4B", "AIME 2025", "STAIR", "T2-T4")
    assert "1 of 120 responses missing" in reasons[summary_mean]
    native = ("tab:continuous-summary", "Qwen3.5-4B", "AIME 2025", "Native", "T2-T4")
    assert native not in reasons
    assert "no table or figure" in reasons["tab:bank-runtime", "Qwen3.5-4B", "MATH-500", "Native", "T2"]


def test_fewer_problems_give_no_verdict() -> None:
    problems = tuple(f"p{number}" for number in range(60))
    facts = RunFacts(paper_config(), Responses({}, 4, {"math500": problems, "aime2025": problems[:30]}), *NOTHING)
    place = PrintedPlace("tab:continuous-summary", "Qwen3.5-4B", "MATH-500", "STAIR", "T2-T4", "", "Avg@4", "%")
    assert facts.other_problems(place) == "60 problems; the paper has 500"
    assert facts.other_problems(place._replace(benchmark="AIME 2025")) is None
    assert facts.stands_in(place) is None


def test_small_models_are_compared_by_structure_only(tmp_path: Path) -> None:
    """The paper's rows under the tiny run's configuration: every number is there, and none has another verdict."""
    tiny = resolve(ROOT, {"run": "tiny"})
    rows = rows_of_evaluation()
    compared = Frame.of(tmp_path, rows, None, tiny).compared()
    there = [each for each in compared if each.ours is not None]
    assert len([each for each in there if each.printed.kind in SAMPLED]) == 943 - 18 - 14 - 4
    assert {each.verdict for each in there} == {Verdict.STRUCTURE}
    assert all("Tiny" in each.reason or "generated" in each.reason for each in there)
    assert "7 of this run's models and benchmarks replace those of the paper" in summary(compared, structure_note(tiny))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (WITHOUT_AMC23, "pooled over math500, aime2025; the paper pools math500, aime2025, amc23"),
        (
            {"select": {"models": ["qwen3-4b-instruct", "qwen3.5-4b"]}},
            "pooled over qwen3-4b-instruct, qwen3.5-4b; the paper pools qwen3-4b-instruct, qwen3.5-4b, qwen3.5-9b",
        ),
        ({}, None),
    ],
    ids=["benchmark", "model", "all"],
)
def test_pooled_numbers_over_other_models_or_benchmarks_have_no_verdict(
    changes: dict[str, object], reason: str | None
) -> None:
    config = resolve(ROOT, {"run": "paper", **changes})
    pooled = PrintedPlace("tab:history-correctness-summary", "", "", "Native", "T2-T4", "T1 correct", "accuracy", "%")
    assert RunFacts(config, Responses({}, 4, {}), *NOTHING).other_problems(pooled) == reason


@pytest.mark.parametrize(
    ("run", "changes", "condition", "reason"),
    [
        ("paper", {"controls": None}, "STAIR", "the run has no study with a shared T1 history"),
        (
            "tiny",
            {},
            "STAIR 2K",
            "the study with a shared T1 history does not have STAIR 2K for Qwen3.5-4B on AIME 2025",
        ),
        ("paper", {}, "STAIR Full", "no table or figure of the run gives this number"),
        ("paper", {}, "Random-reflector", "no table or figure of the run gives this number"),
    ],
)
def test_what_the_study_with_a_shared_t1_lacks_has_its_reason(
    run: str, changes: dict[str, object], condition: str, reason: str
) -> None:
    facts = RunFacts(resolve(ROOT, {"run": run, **changes}), Responses({}, 4, {}), *NOTHING)
    place = PrintedPlace("tab:bank-prefix-accuracy", "Qwen3.5-4B", "AIME 2025", condition, "T2", "", "Avg@4", "%")
    assert facts.absent(place).startswith(reason)
