"""The numbers of a design that the paper prints, under the metrics' names in `paper_values.csv`."""

from __future__ import annotations

from typing import NamedTuple

from stair.replay.design.crossed import Coverage, Design

_TURNS = {1: "one", 2: "two", 3: "three"}


class Fact(NamedTuple):
    """One number."""

    coverage: str | None
    """`history_coverage` or `problem_coverage`; None for a number of the text."""
    group: int | None
    """1 or 2; None for both together."""
    metric: str
    value: int


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


def _coverages(design: Design) -> dict[str, list[Coverage]]:
    return {
        "history_coverage": [group.history_coverage for group in design.groups],
        "problem_coverage": [group.problem_coverage for group in design.groups],
    }


def _pairs(coverage: Coverage) -> int:
    return len(coverage.problems) * len(coverage.histories)
