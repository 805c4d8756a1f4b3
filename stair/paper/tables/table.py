"""What every table is: numbers for the CSV; lines and columns that place them, for the eye."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, TypeVar

from stair.paper.exhibits import Exhibit
from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, rounded
from stair.paper.source import Source
from stair.statistics.grid import Gap, Responses
from stair.statistics.intervals import ROUNDING
from stair.statistics.metrics import MEAN, at_turn, metric_names, over_later_turns
from stair.statistics.values import Value

Number = float | int | Gap
Key = TypeVar("Key")
_PLACE = ("model", "benchmark", "condition", "turn", "group")


@dataclass(frozen=True)
class Column:
    """A column: of the lines' names, or of the numbers with these metrics at each line's place."""

    title: str
    metrics: tuple[str, ...] = ()
    place: Mapping[str, str] = field(default_factory=dict)
    """What the column adds to a line's place."""
    text: Callable[..., str] = rounded
    """From the numbers of a cell to its text; a cell that lacks one has a dash."""
    over: str = ""
    """A heading above the title, which adjacent columns share."""
    align: str = "r"
    rival: bool = False
    """Whether the greatest number is bold, among lines that are rivals too."""
    shaded: str | None = None


@dataclass(frozen=True)
class Line:
    """A row before its numbers are known."""

    names: tuple[str | Cell, ...]
    """The cells of columns without numbers."""
    place: Mapping[str, str] = field(default_factory=dict)
    """The attributes of the values that it shows."""
    shaded: str | None = None
    ruled: bool = False
    rival: bool = True
    bold: bool = False
    """Whether all its numbers are bold."""
    exceeds: Mapping[str, str] | None = None
    """The place of smaller numbers, where greater ones are underlined."""
    texts: Mapping[str, Callable[..., str]] = field(default_factory=dict)
    """By metric, formats that are not the columns'."""


Block = tuple[str, Sequence[Line]]
"""Lines below a heading, or without one."""


@dataclass(frozen=True)
class Table:
    """A finished table."""

    exhibit: Exhibit
    values: tuple[Value, ...]
    layout: Layout
    columns: tuple[str, ...] = ()
    """Further attributes of the values, as columns of the CSV."""

    @property
    def name(self) -> str:
        """The file's name, without an ending."""
        return self.exhibit.name

    @classmethod
    def of(
        cls,
        exhibit: Exhibit,
        caption: str,
        columns: Sequence[Column],
        blocks: Iterable[Block],
        values: Sequence[Value],
        notes: tuple[str, ...],
        across: bool = False,
        shown: Sequence[Value] = (),
        more: tuple[str, ...] = (),
    ) -> Table:
        """The table of these lines and columns.

        `across`: rivals are the numbers of a line, not those of a column in a block. `shown`: values of cells that the
        CSV does not have. `more`: further columns of the CSV.
        """
        style = dict(exhibit.style)
        rule, rows = style.pop("rule", "midrule"), list[Row]()
        numbers = {_key(place_of(value), value.metric): value.value for value in (*values, *shown)}
        for title, lines in blocks:
            if rows:
                rows[-1] = replace(rows[-1], rule=rule)
            rows += [Row((Cell(title),), heading=True)] if title else []
            rows += _rows(lines, columns, numbers, across, rule)
        align = "".join(column.align for column in columns)
        layout = Layout(exhibit.artifact, caption, _header(columns), tuple(rows), notes, align, **style)
        return cls(exhibit, tuple(values), layout, more)


def place_of(value: Value) -> dict[str, str]:
    """The place of a value: its attributes but for its metric."""
    return {name: getattr(value, name) for name in _PLACE}


def _key(place: Mapping[str, str], metric: str) -> tuple[str, ...]:
    return (*(place.get(name, "") for name in _PLACE), metric)


def _header(columns: Sequence[Column]) -> tuple[tuple[tuple[str, int], ...], ...]:
    """One line of titles; two where a column has a heading above."""
    titles = tuple((column.title, 1) for column in columns)
    if not any(column.over for column in columns):
        return (titles,)
    above: list[tuple[str, int]] = []
    for over, group in groupby(column.over for column in columns):
        count = len(list(group))
        above += [(over, count)] if over else [("", 1)] * count
    return tuple(above), titles


def _rows(
    lines: Sequence[Line],
    columns: Sequence[Column],
    numbers: Mapping[tuple[str, ...], Number],
    across: bool,
    rule: str,
) -> Iterator[Row]:
    def at(place: Mapping[str, str], column: Column) -> list[Number | None]:
        return [numbers.get(_key({**place, **column.place}, metric)) for metric in column.metrics]

    teams: dict[int, dict[tuple[int, int], Number | None]] = {}
    for (i, line), (j, column) in product(enumerate(lines), enumerate(columns)):
        if line.rival and column.rival:
            teams.setdefault(i if across else j, {})[i, j] = at(line.place, column)[0]
    bold = {place for team in teams.values() for place in best(team)}
    for i, line in enumerate(lines):
        names, cells = iter(line.names), []
        for j, column in enumerate(columns):
            if not column.metrics:
                name = next(names)
                cells.append(name if isinstance(name, Cell) else Cell(name))
                continue
            found, write = at(line.place, column), line.texts.get(column.metrics[0], column.text)
            text = DASH if any(number is None or isinstance(number, Gap) for number in found) else write(*found)
            exceeds = line.exceeds is not None and _exceeds(found[0], at(line.exceeds, column)[0])
            cells.append(Cell(text, line.bold or ((i, j) in bold and text != DASH), exceeds, column.shaded))
        yield Row(tuple(cells), shaded=line.shaded, rule=rule if line.ruled else None)


def _exceeds(number: Number | None, other: Number | None) -> bool:
    return isinstance(number, float) and isinstance(other, float) and number > other + ROUNDING


def best(numbers: Mapping[Key, Number | None]) -> set[Key]:
    """The keys of the greatest number, ties included. A number is better only than another one: of a single one, none."""
    known = {key: float(number) for key, number in numbers.items() if isinstance(number, float | int)}
    least = max(known.values(), default=0.0) - ROUNDING
    return {key for key, number in known.items() if number >= least and len(known) > 1}


def whole(number: float) -> str:
    """A count with thousands separated."""
    return f"{int(number):,}"


# ---------------------------------------------------------------- tables of responses


def condition_line(labels: Labels, condition: str, ours: Iterable[str] = ("stair",), **place: str) -> Line:
    """A condition's line. The names of `ours` are bold, and their rows are shaded."""
    is_ours = condition in ours
    name = Cell(labels.printed_condition(condition), bold=is_ours)
    return Line((name,), {"condition": condition, **place}, shaded="stairrow" if is_ours else None)


def scores(responses: Responses, blocks: Iterable[Block], columns: Sequence[Column]) -> list[Value]:
    """Avg@k and Pass@k of every cell, block by block and column by column."""
    return [
        score(responses, metric=metric, **line.place, **column.place)
        for _, lines in blocks
        for column in columns
        for line in lines
        for metric in column.metrics
    ]


def score(responses: Responses, *, model: str, benchmark: str, condition: str, turn: str, metric: str) -> Value:
    """Avg@k or Pass@k of a turn, or the mean over T2 to T4."""
    of, where = metric_names(responses.samples)[metric], (responses, model, benchmark, condition)
    number = over_later_turns(of, *where) if turn == MEAN else at_turn(of, *where, int(turn[1:]))
    return Value(model, benchmark, condition, turn, "", metric, number, "%")


def of_rows(
    source: Source,
    caption: str,
    columns: Sequence[Column],
    blocks: Iterable[Block],
    values: Sequence[Value],
    benchmarks: Iterable[str] = (),
    **options: Any,
) -> Table:
    """A table of response rows with its notes; `options` as for `Table.of`."""
    below = notes(source.labels, source.responses, values, benchmarks)
    return Table.of(source.exhibit, caption, columns, blocks, values, below, **options)


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


def nothing(source: Source) -> Table:
    """A table without rows: a run of fewer conditions or benchmarks than it compares still has it, and it says why."""
    caption = "Nothing to show: this run has not all the conditions and benchmarks that the table compares."
    layout = Layout(source.exhibit.name, caption, ((("No rows", 1),),), (), source.labels.notes)
    return Table(source.exhibit, (), layout)


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
