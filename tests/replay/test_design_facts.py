"""The numbers of a design as the paper prints them: in table replay_design and in the text of appendix A.1."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from stair.records.rows import ReplayHistory
from stair.stages.replay.design.crossed import Design, crossed_design
from stair.stages.replay.design.printed_numbers import Fact, length_facts, table_facts, text_facts
from tests.replay.design_rules import sizes_of
from tests.replay.test_crossed_design import PAPER, four_paths, schedule

PRINTED = Path(__file__).parents[2] / "stair" / "paper" / "paper_values.csv"
LABELS = {"History coverage": "history_coverage", "Problem coverage": "problem_coverage", "": None}


def printed(artifact: str) -> dict[Fact, str]:
    """The paper's numbers of an artifact, by the name that a fact would have; the numbers of tokens are not the design's."""
    with PRINTED.open(encoding="utf-8", newline="") as file:
        return {
            Fact(LABELS[row["condition"]], int(row["group"][-1]) if row["group"] else None, row["metric"], 0): row[
                "value"
            ]
            for row in csv.DictReader(file)
            if row["artifact"] == artifact and row["unit"] != "tokens"
        }


def unnumbered(facts: list[Fact]) -> dict[Fact, str]:
    """Values by the rest of the fact."""
    return {fact._replace(value=0): str(fact.value) for fact in facts}


@pytest.fixture(scope="module")
def design() -> Design:
    """The paper's sizes over one of the evaluation's schedules."""
    sessions = schedule(500)
    return crossed_design(sessions, four_paths(sessions), PAPER, "replay")


def test_the_table_has_the_papers_numbers_in_the_papers_order(design: Design) -> None:
    facts = table_facts(design)
    assert unnumbered(facts) == printed("tab:replay-design")
    assert list(unnumbered(facts)) == list(printed("tab:replay-design"))


def test_the_text_has_the_papers_numbers(design: Design) -> None:
    facts, paper = unnumbered(text_facts(design)), printed("app:replay-construction")
    assert {fact: facts.get(fact) for fact in paper} == paper
    # The paper gives the blocks of the problem coverage only.
    assert {fact.metric for fact in facts.keys() - paper.keys()} == {"connected source blocks, history coverage"}


def test_the_tiny_runs_numbers() -> None:
    sessions = schedule(64)
    design = crossed_design(sessions, four_paths(sessions), sizes_of("tiny"), "replay")
    facts = {(fact.group, fact.metric): fact.value for fact in text_facts(design)}
    assert facts[None, "distinct nonempty replays"] == len(list(design.cells())) == 4608
    assert facts[None, "nonempty replays, history coverage"] == 3 * 2 * 16 * 32
    assert facts[None, "cells of problem coverage reused"] == 3 * 2 * 16 * 16
    assert facts[None, "cells that problem coverage adds"] == 3 * 2 * 16 * 16
    assert facts[None, "cells of the three-turn problem-coverage condition"] == 2 * 32 * 16
    assert facts[None, "empty-history references"] == 64
    assert [facts[group, "connected source blocks, history coverage"] for group in (1, 2)] == [8, 8]


def test_lengths_of_histories_by_depth_group_and_coverage() -> None:
    rows = [
        ReplayHistory(group, "s-0", "s", 0, [], tokens, 1, block)
        for group, block, tokens in (
            (1, 1, [10, 25, 70]),
            (1, None, [12, 20, 60]),
            (1, 1, [11, 40, 50]),
            (1, None, [17, 30, 90]),
            (2, 1, [5, 9, 13]),
            (2, None, [6, 8, 21]),
        )
    ]
    facts = {(fact.metric, fact.group): fact.value for fact in length_facts(rows)}
    assert all(fact.unit == "tokens" for fact in length_facts(rows))
    assert [facts[f"median history length, depth {depth}", 1] for depth in (1, 2, 3)] == [11.5, 27.5, 65]
    assert [facts[f"median history length, depth {depth}", 2] for depth in (1, 2, 3)] == [5.5, 8.5, 17]
    assert [facts[f"median history length, depth {depth}, problem coverage", 1] for depth in (1, 2, 3)] == [
        10.5,
        32.5,
        60,
    ]
    assert [facts[f"shortest {turns}-turn history", 1] for turns in ("one", "two", "three")] == [10, 20, 50]
    assert [facts[f"longest {turns}-turn history", 1] for turns in ("one", "two", "three")] == [17, 40, 90]
    assert [facts[f"longest {turns}-turn history", 2] for turns in ("one", "two", "three")] == [6, 9, 21]
    assert facts["longest three-turn history, problem coverage", 1] == 70
    assert len(facts) == 2 * 2 * 3 * 3  # coverages, groups, depths, statistics


def test_the_papers_names_of_lengths_are_among_them() -> None:
    rows = [ReplayHistory(group, "s-0", "s", 0, [], [1, 2, 3], 1, 1) for group in (1, 2)]
    with PRINTED.open(encoding="utf-8", newline="") as file:
        names = {
            (row["metric"], int(row["group"][-1]))
            for row in csv.DictReader(file)
            if row["artifact"] == "app:replay-construction" and row["unit"] == "tokens"
        }
    assert len(names) == 10
    assert names <= {(fact.metric, fact.group) for fact in length_facts(rows)}
