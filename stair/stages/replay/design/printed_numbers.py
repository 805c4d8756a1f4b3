"""The numbers of a design that the paper prints, under the metrics' names in `paper_values.csv`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        for name, number, coverage in _coverages(design)
        for metric, value in (
            ("current problems", len(coverage.problems)),
            ("histories", len(coverage.histories)),
            ("sessions", len(coverage.sessions)),
            ("source problems", len(coverage.sources)),
        )
    ]


def text_facts(design: Design) -> list[Fact]:
    """The numbers of appendix A.1's text, but for the lengths of histories, which tokens decide."""
    many = few = reused = 0
    for group in design.groups:
        wide, narrow = group.history_coverage, group.problem_coverage
        many += len(wide.problems) * len(wide.histories)
        few += len(narrow.problems) * len(narrow.histories)
        reused += len(wide.problems) * len(narrow.histories)
    depth = len(design.groups[0].history_coverage.histories[0].sources)
    return [
        Fact(None, None, "nonempty replays, history coverage", depth * many),
        Fact(None, None, "cells of problem coverage reused", depth * reused),
        Fact(None, None, "cells that problem coverage adds", depth * (few - reused)),
        Fact(None, None, "distinct nonempty replays", depth * (many + few - reused)),
        Fact(None, None, f"cells of the {_TURNS[depth]}-turn problem-coverage condition", few),
        Fact(None, None, "empty-history references", len(design.references())),
        *(
            Fact(None, number, f"connected source blocks, {name.replace('_', ' ')}", len(coverage.blocks))
            for name, number, coverage in _coverages(design)
        ),
    ]


def length_facts(histories: Sequence[ReplayHistory]) -> list[Fact]:
    """Tokens of whole prefixes, template included: median, shortest and longest by depth, over the design's histories.

    Numbers of the history coverage have the text's own names. Those of its part, the problem coverage, have a suffix.
    """
    depths = range(1, len(histories[0].prefix_tokens) + 1)
    statistics: list[tuple[str, int, Callable[[list[int]], float]]] = [
        *((f"median history length, depth {depth}", depth, median) for depth in depths),
        *(
            (f"{name} {_TURNS[depth]}-turn history", depth, which)
            for depth in depths
            for name, which in (("shortest", min), ("longest", max))
        ),
    ]
    inner = [row for row in histories if row.problem_coverage_block is not None]
    return [
        Fact(
            None,
            group,
            metric + ending,
            statistic([row.prefix_tokens[depth - 1] for row in rows if row.group == group]),
            "tokens",
        )
        for ending, rows in (("", histories), (", problem coverage", inner))
        for metric, depth, statistic in statistics
        for group in (1, 2)
    ]


def _coverages(design: Design) -> list[tuple[str, int, Coverage]]:
    return [
        *(("history_coverage", group.number, group.history_coverage) for group in design.groups),
        *(("problem_coverage", group.number, group.problem_coverage) for group in design.groups),
    ]
