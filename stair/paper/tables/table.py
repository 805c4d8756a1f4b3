"""What every table is: numbers for the CSV, a layout for the eye."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stair.paper.labels import Labels
from stair.paper.layout import Cell, Layout, Row, rounded
from stair.statistics.grid import Gap, Responses, TurnKey
from stair.statistics.intervals import ROUNDING
from stair.statistics.metrics import REFERENCE
from stair.statistics.values import Value

SHOWN = ("vanilla", "native", "stair")
"""The conditions of the continuous comparison, in the order of the paper's tables."""


@dataclass(frozen=True)
class Table:
    """A finished table."""

    name: str
    """The file's name, without an ending."""
    artifact: str
    """The paper's label."""
    values: tuple[Value, ...]
    layout: Layout
    sources: frozenset[TurnKey] = frozenset()
    """The grids of responses behind the cells that the layout shows."""
    columns: tuple[str, ...] = ()
    """Further attributes of the values, as columns of the CSV."""


def sources(responses: Responses, shown: Callable[[TurnKey], bool]) -> frozenset[TurnKey]:
    """The grids that a table shows, complete or not."""
    return frozenset(key for key in responses.grids if shown(key))


def reported(key: TurnKey) -> bool:
    """Whether a continuous comparison reports a grid: Vanilla's T1, and later turns of the others."""
    return (key.turn == 1) == (key.condition == REFERENCE)


def stacked(blocks: Sequence[tuple[str, Sequence[Row]]], rule: str, *, headed: bool = True) -> tuple[Row, ...]:
    """Blocks of rows, each under a heading of its own, with a LaTeX rule between blocks."""
    rows: list[Row] = []
    for title, block in blocks:
        if rows:
            rows[-1] = replace(rows[-1], rule=rule)
        rows += [Row((Cell(title),), heading=True), *block] if headed else block
    return tuple(rows)


def condition_row(labels: Labels, condition: str, cells: Iterable[Cell], ours: Iterable[str] = ("stair",)) -> Row:
    """A condition's row: its name, then its cells. The names of `ours` are bold, and their rows are shaded."""
    is_ours = condition in ours
    name = Cell(labels.printed_condition(condition), bold=is_ours)
    return Row((name, *cells), shaded="stairrow" if is_ours else None)


def by_place(values: Iterable[Value]) -> dict[tuple[str, str, str, str, str], float | Gap]:
    """Values by (model, benchmark, condition, turn, metric)."""
    return {(v.model, v.benchmark, v.condition, v.turn, v.metric): v.value for v in values}


def number_cells(column: Mapping[str, float | Gap], marked: Iterable[str]) -> dict[str, Cell]:
    """One column's cells by row key; the greatest number among the `marked` rows is bold, ties included.

    A number is better only than another one: with fewer than two among the marked rows, none is bold.
    """
    numbers = {key: float(value) for key in marked if isinstance(value := column.get(key), float | int)}
    least = max(numbers.values()) - ROUNDING if len(numbers) > 1 else math.inf
    return {key: Cell(rounded(value), bold=numbers.get(key, -math.inf) >= least) for key, value in column.items()}


def notes(
    labels: Labels, responses: Responses, values: Iterable[Value], benchmarks: Iterable[str] = ()
) -> tuple[str, ...]:
    """The notes below a table: problems left out of `benchmarks`, reasons of gaps, the run's note."""
    lines = [
        f"† {labels.benchmark(benchmark)} excludes problems overlapping the training set, "
        f"leaving {len(responses.problems[benchmark])} problems."
        for benchmark in dict.fromkeys(benchmarks)
        if benchmark in labels.marked
    ]
    gaps = gap_reasons(values)
    lines += [f"Not reported: {reason}." for reason in gaps[:5]]
    if len(gaps) > 5:
        lines.append(f"Not reported: {len(gaps) - 5} more, for like reasons.")
    return (*lines, *labels.notes)


def gap_reasons(values: Iterable[Value]) -> list[str]:
    """Why numbers are missing, each reason once."""
    return list(dict.fromkeys(value.value.reason for value in values if isinstance(value.value, Gap)))


def nothing(name: str, labels: Labels) -> Table:
    """A table without rows: a run of fewer conditions or benchmarks than it compares still has it, and it says why."""
    caption = "Nothing to show: this run has not all the conditions and benchmarks that the table compares."
    return Table(name, name, (), Layout(name, caption, ((("No rows", 1),),), (), labels.notes))


def benchmark_title(labels: Labels, benchmark: str) -> str:
    """A benchmark's label, with a dagger where problems are left out."""
    return labels.benchmark(benchmark) + ("†" if benchmark in labels.marked else "")


def comparison_title(labels: Labels, model: str, benchmark: str) -> str:
    """The heading of one model's block on one benchmark."""
    return f"{labels.printed_model(model)} on {benchmark_title(labels, benchmark)}"


def in_words(count: int) -> str:
    """A small number as captions write it."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[count] if count < len(words) else f"{count:,}"
