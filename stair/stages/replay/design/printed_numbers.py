"""The numbers of a design that the paper prints, under the metrics' names in `paper_values.csv`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from stair.records.rows import ReplayHistory
from stair.stages.replay.design.crossed import Coverage, Design

_TURNS = {1: "one", 2: "two", 3: "three"}


class Fact(NamedTuple):
    """One number."""

    coverage: str | None
    """`history_coverage` or `problem_coverage`; None for a number of the text."""
    group: int | None
    """1 or 2; None for both together."""
    metric: str
    value: int | float
    unit: str = ""


def table_facts(design: Design) -> list[Fact]:
    """Table `replay_design`: both groups of the history coverage, then of the problem coverage."""
    return [
        Fact(name, number, metric, value)
        for name, coverages in _coverages(design).items()
        for number, coverage in enumerate(coverages, start=1)
        for metric, value in (
            ("current problems", len(coverage.problems)),
            ("histories", len(coverage.histories)),
            ("sessions", len(coverage.sessions)),
            ("source problems", len(coverage.sources)),
        )
    ]


def text_facts(design: Design) -> list[Fact]:
    """The numbers of appendix A.1's text, but for the lengths of histories, which tokens decide."""
    depth = design.groups[0].depth
    many = sum(_pairs(group.history_coverage) for group in design.groups)
    few = sum(_pairs(group.problem_coverage) for group in design.groups)
    reused = sum(_pairs(group.shared) for group in design.groups)
    return [
        Fact(None, None, "nonempty replays, history coverage", depth * many),
        Fact(None, None, "cells of problem coverage reused", depth * reused),
        Fact(None, None, "cells that problem coverage adds", depth * (few - reused)),
        Fact(None, None, "distinct nonempty replays", depth * (many + few - reused)),
        Fact(None, None, f"cells of the {_TURNS[depth]}-turn problem-coverage condition", few),
        Fact(None, None, "empty-history references", len(design.references())),
        *(
            Fact(None, number, f"connected source blocks, {name.replace('_', ' ')}", len(coverage.blocks))
            for name, coverages in _coverages(design).items()
            for number, coverage in enumerate(coverages, start=1)
        ),
    ]


def length_facts(histories: Sequence[ReplayHistory]) -> list[Fact]:
    """Tokens of whole prefixes, template included: median, shortest and longest by depth, over the design's histories.

    Numbers of the history coverage have the text's own names. Those of its part, the problem coverage, have a suffix.
    """
    facts = []
    for ending, rows in (
        ("", histories),
        (", problem coverage", [row for row in histories if row.problem_coverage_block is not None]),
    ):
        lengths = {
            group: list(zip(*(row.prefix_tokens for row in rows if row.group == group), strict=True))
            for group in (1, 2)
        }
        depth = len(lengths[1])
        facts += [
            Fact(
                None,
                group,
                f"median history length, depth {number}{ending}",
                median(lengths[group][number - 1]),
                "tokens",
            )
            for number in range(1, depth + 1)
            for group in (1, 2)
        ]
        facts += [
            Fact(
                None,
                group,
                f"{name} {_TURNS[number]}-turn history{ending}",
                which(lengths[group][number - 1]),
                "tokens",
            )
            for number in range(1, depth + 1)
            for name, which in (("shortest", min), ("longest", max))
            for group in (1, 2)
        ]
    return facts


def _coverages(design: Design) -> dict[str, list[Coverage]]:
    return {
        "history_coverage": [group.history_coverage for group in design.groups],
        "problem_coverage": [group.problem_coverage for group in design.groups],
    }


def _pairs(coverage: Coverage) -> int:
    return len(coverage.problems) * len(coverage.histories)
