"""The numbers of a design that the paper prints, under the metrics' names in `paper_values.csv`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from stair.records.rows import ReplayHistory
from stair.stages.replay.design.crossed import Coverage, Design
from stair.statistics.values import Value

COVERAGES = {"history_coverage": "History coverage", "problem_coverage": "Problem coverage"}
_TURNS = {1: "one", 2: "two", 3: "three"}


def table_numbers(design: Design, model: str, benchmark: str) -> list[Value]:
    """Table `replay_design`: both groups of the history coverage, then of the problem coverage."""
    return [
        Value(model, benchmark, COVERAGES[name], "", f"group {number}", metric, value, "")
        for name, number, coverage in _coverages(design)
        for metric, value in (
            ("current problems", len(coverage.problems)),
            ("histories", len(coverage.histories)),
            ("sessions", len(coverage.sessions)),
            ("source problems", len(coverage.sources)),
        )
    ]


def text_numbers(design: Design, model: str, benchmark: str) -> Iterator[Value]:
    """The numbers of appendix A.1's text, but for the lengths of histories, which tokens decide."""
    many = few = reused = 0
    for group in design.groups:
        wide, narrow = group.history_coverage, group.problem_coverage
        many += len(wide.problems) * len(wide.histories)
        few += len(narrow.problems) * len(narrow.histories)
        reused += len(wide.problems) * len(narrow.histories)
    depth = len(design.groups[0].history_coverage.histories[0].sources)
    for metric, number in (
        ("nonempty replays, history coverage", depth * many),
        ("cells of problem coverage reused", depth * reused),
        ("cells that problem coverage adds", depth * (few - reused)),
        ("distinct nonempty replays", depth * (many + few - reused)),
        (f"cells of the {_TURNS[depth]}-turn problem-coverage condition", few),
        ("empty-history references", len(design.references())),
    ):
        yield Value(model, benchmark, "", "", "", metric, number, "")
    for name, group_number, coverage in _coverages(design):
        metric = f"connected source blocks, {name.replace('_', ' ')}"
        yield Value(model, benchmark, "", "", f"group {group_number}", metric, len(coverage.blocks), "")


def length_numbers(histories: Sequence[ReplayHistory], model: str, benchmark: str) -> Iterator[Value]:
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
    for ending, rows in (("", histories), (", problem coverage", inner)):
        for metric, depth, statistic in statistics:
            for group in (1, 2):
                length = statistic([row.prefix_tokens[depth - 1] for row in rows if row.group == group])
                yield Value(model, benchmark, "", "", f"group {group}", metric + ending, length, "tokens")


def _coverages(design: Design) -> list[tuple[str, int, Coverage]]:
    return [
        *(("history_coverage", group.number, group.history_coverage) for group in design.groups),
        *(("problem_coverage", group.number, group.problem_coverage) for group in design.groups),
    ]
