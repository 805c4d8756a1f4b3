"""What every table is: numbers for the CSV; lines and columns that place them, for the eye."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, TypeVar

from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, rounded
from stair.paper.paper_labels import artifact, evaluated_as
from stair.statistics.grid import Gap, Responses, TurnKey
from stair.statistics.intervals import ROUNDING
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE, at_turn, metric_names, over_later_turns
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

STYLES: dict[str, dict[str, Any]] = {
    "continuous_summary": {"trimmed": False, "separation": 3, "stretch": 1.12},
    "turns": {"rule": "addlinespace", "separation": 2},
    "history": {"rule": "addlinespace", "separation": 6},
    "history_correctness_summary": {"separation": 3},
    "native_accuracy": {"trimmed": False},
    "lora_comparison": {"trimmed": False, "separation": 6, "stretch": 1.12},
    "lora_turns": {"rule": "addlinespace", "separation": 2},
    "shared_t1": {"trimmed": False, "separation": 7, "stretch": 1.12},
    "bank_prefix_accuracy": {"rule": "addlinespace", "separation": 8},
    "intervals": {"separation": 3, "size": "footnotesize"},
    "comparisons": {"separation": 3, "size": "footnotesize"},
    "shared_t1_intervals": {"separation": 3, "size": "footnotesize"},
    "shared_t1_comparisons": {"separation": 3, "size": "footnotesize"},
    "replay_design": {"trimmed": False},
    "bank_runtime": {"trimmed": False, "separation": 4, "stretch": 1.1},
    "controller_configuration": {"trimmed": False},
    "evaluation_decoding": {"trimmed": False},
    "in_text": {"rule": "addlinespace", "size": "tiny"},
}
"""LaTeX's settings of each table, or of all with a prefix, as `Layout` names them; `rule` is between blocks."""


@dataclass(frozen=True)
class Table:
    """A finished table."""

    name: str
    """The file's name, without an ending."""
    values: tuple[Value, ...]
    layout: Layout
    sources: frozenset[TurnKey] = frozenset()
    """The grids of responses behind the values."""
    columns: tuple[str, ...] = ()
    """Further attributes of the values, as columns of the CSV."""

    @property
    def artifact(self) -> str:
        """The paper's label."""
        return artifact(self.name)

    @classmethod
    def of(
        cls,
        name: str,
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
        style = dict(STYLES.get(name) or STYLES.get(name.partition("_")[0], {}))
        rule, rows = style.pop("rule", "midrule"), list[Row]()
        numbers = {_key(place_of(value), value.metric): value.value for value in (*values, *shown)}
        for title, lines in blocks:
            if rows:
                rows[-1] = replace(rows[-1], rule=rule)
            rows += [Row((Cell(title),), heading=True)] if title else []
            rows += _rows(lines, columns, numbers, across, rule)
        align = "".join(column.align for column in columns)
        layout = Layout(artifact(name), caption, _header(columns), tuple(rows), notes, align, **style)
        return cls(name, tuple(values), layout, columns=more)

    def from_grids(self, responses: Responses, labels: Labels, beside: str = "") -> Table:
        """The table with the grids behind its values; `beside` is a condition that every value is compared with."""
        wanted = {
            (value.model, value.benchmark, evaluated_as(condition), turn)
            for value in self.values
            for condition in filter(None, (value.condition, beside))
            for turn in (
                [1] if condition == REFERENCE else LATER_TURNS if value.turn == MEAN else [int(value.turn[1:])]
            )
        }

        def behind(key: TurnKey) -> bool:
            """Whether a value is of this grid, or pools it with others."""
            benchmarks = (key.benchmark, *([""] if key.benchmark in labels.mathematical else []))
            conditions = (key.condition, labels.name(key.condition).averaged)
            return any((*place, key.turn) in wanted for place in product((key.model, ""), benchmarks, conditions))

        return replace(self, sources=frozenset(filter(behind, responses.grids)))


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
    responses: Responses,
    labels: Labels,
    name: str,
    caption: str,
    columns: Sequence[Column],
    blocks: Iterable[Block],
    values: Sequence[Value],
    benchmarks: Iterable[str] = (),
    beside: str = "",
    **options: Any,
) -> Table:
    """A table of response rows, with its notes and the grids behind its values; `options` as for `Table.of`."""
    table = Table.of(name, caption, columns, blocks, values, notes(labels, responses, values, benchmarks), **options)
    return table.from_grids(responses, labels, beside)


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
    return Table(name, (), Layout(name, caption, ((("No rows", 1),),), (), labels.notes))


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
