"""The numbers of a design as the paper prints them: in table replay_design and in the text of appendix A.1."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from stair.replay.design.crossed import Design, crossed_design
from stair.replay.design.facts import Fact, table_facts, text_facts
from tests.replay.test_crossed_design import PAPER, four_paths, schedule, sizes_of

PRINTED = Path(__file__).parents[2] / "stair" / "reporting" / "paper_values.csv"
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
