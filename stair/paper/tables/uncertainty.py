"""Tables intervals and comparisons: how far each number could be off, and which differences are more than chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress

from stair.paper.labels import Labels
from stair.paper.layout import DASH, rounded, signed
from stair.paper.source import Source
from stair.paper.tables.run_notes import with_answer_forms
from stair.paper.tables.table import Column, Line, Table, benchmark_title, of_rows
from stair.statistics.conditioning import CONDITIONS
from stair.statistics.grid import Gap
from stair.statistics.interval_tables import (
    ComparisonRow,
    IntervalRow,
    condition_comparisons,
    history_intervals,
    turn_intervals,
)
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE
from stair.statistics.paired import false_discoveries
from stair.statistics.shared_t1_metrics import TURN
from stair.statistics.values import Value

BASE = "native"
"""What conditions are compared with."""

_ENDS = {
    "low": ("interval low", "%"),
    "high": ("interval high", "%"),
    "rerun_low": ("rerun low", "%"),
    "rerun_high": ("rerun high", "%"),
}
_DIFFERENCES = {
    "value": ("minus Native", "pp"),
    "low": ("minus Native interval low", "pp"),
    "high": ("minus Native interval high", "pp"),
    "detectable": ("minus Native detectable", "pp"),
    "p": ("minus Native p", ""),
}
"""The columns of rows that are reported: the ends of their metrics' names, and their units."""
_FLOOR = "minus Native noise floor"


def intervals(source: Source) -> Table:
    """Every score with two 95% intervals: over other problems of the kind, and over another run on these problems."""
    return with_answer_forms(_intervals(source), source.config, source.paths)


def shared_t1_intervals(source: Source) -> Table:
    """As `intervals`, of the study with a shared T1 history: at T2 alone, a test-time seed a row."""
    return _intervals(_second_turns(source), (f"T{TURN}",))


def comparisons(source: Source) -> Table | None:
    """Every condition with later turns against Native, paired by problem; None where there is nothing to compare.

    Repeat conditions of Native give the noise floor, the difference without any effect. It is beside every effect and is
    not tested.
    """
    return _comparisons(source, LATER_TURNS)


def shared_t1_comparisons(source: Source) -> Table | None:
    """As `comparisons`, of the study with a shared T1 history: at T2 alone.

    Each test-time seed has a row, and so has the average of a family's seeds.
    """
    return _comparisons(_second_turns(source), (TURN,))


def _second_turns(source: Source) -> Source:
    grids = {key: grid for key, grid in source.responses.grids.items() if key.turn == TURN}
    return replace(source, responses=replace(source.responses, grids=grids))


def _intervals(source: Source, turns: Sequence[str] | None = None) -> Table:
    """The intervals of these turns; None: of every turn and of the mean over later ones."""
    responses, labels = source.responses, source.labels
    scores = [row for row in turn_intervals(responses) if turns is None or row.turn in turns]
    every = [*scores]
    for model, benchmark in responses.pairs:
        present = responses.conditions(model, benchmark)
        compared = [condition for condition in CONDITIONS if condition in present]
        if REFERENCE in present and compared:
            every += history_intervals(responses, model, benchmark, compared)
    values = [value for row in every for value in _values(row, row.group, _ENDS)]
    average = f"Avg@{responses.samples}"
    # A line for each condition: its T2-T4 mean, or else its first turn.
    shown: dict[tuple[str, str, str], IntervalRow] = {}
    for row in (row for row in scores if row.metric == average):
        key = (row.model, row.benchmark, row.condition)
        shown[key] = row if row.turn == MEAN else shown.get(key, row)

    def line(row: IntervalRow) -> Line:
        return Line((*_names(row, labels), row.turn.replace("-", "--")), _row_place(row))

    blocks = []
    for model in responses.models:
        keys = [(model, b, c) for b in responses.benchmarks(model) for c in responses.conditions(model, b)]
        blocks.append((labels.printed_model(model), [line(shown[key]) for key in keys]))
    columns = [Column(title, align="l") for title in ("Benchmark", "Condition", "Turns")]
    columns.append(Column(average, (average,)))
    for title, name in (("Other problems", "interval"), ("Another run", "rerun")):
        columns.append(Column(title, (f"{average} {name} low", f"{average} {name} high"), text=_interval, align="c"))
    caption = (
        f"{average} (%) with 95% intervals: for other problems of the same kind (bootstrap over problems), and for another run "
        "of the same design on these problems (both runs' sampling noise). The CSV has every turn, group and metric."
    )
    averages = [value for row in shown.values() for value in _values(row, "", {"value": ("", "%")})]
    benchmarks = [benchmark for _, benchmark in responses.pairs]
    return of_rows(source, caption, columns, blocks, values, benchmarks, shown=averages)


def _interval(low: float, high: float) -> str:
    return f"{rounded(low, 1)} to {rounded(high, 1)}"


def _comparisons(source: Source, turns: Sequence[int]) -> Table | None:
    responses, labels = source.responses, source.labels
    span = MEAN if tuple(turns) == LATER_TURNS else f"T{turns[0]}"
    every: list[ComparisonRow] = []
    for model, benchmark in responses.pairs:
        present = responses.conditions(model, benchmark)
        if BASE not in present:
            continue
        later = [key for key in present if key != BASE and max(responses.turns(model, benchmark, key)) > 1]
        families = {**dict.fromkeys(later), **_complete_families(labels, present)}
        for key, members in families.items():
            every += condition_comparisons(responses, model, benchmark, key, BASE, turns=turns, members=members)
    if not every:
        return None
    average = f"Avg@{responses.samples}"
    again = [condition for condition, repeated in labels.repeats.items() if repeated == BASE]
    floors = _noise_floors(row for row in every if row.condition in again)
    shown = [row for row in every if (row.turn, row.metric) == (span, average)]
    tested = [row for row in shown if not row.gap and row.condition not in again]
    different = set(compress(tested, false_discoveries([row.p for row in tested])))
    values = []
    for row in every:
        values += _values(row, "", _DIFFERENCES)
        # Effects have a noise floor; the noise itself has none.
        if row.condition not in again and (floor := floors.get(_place(row))) is not None:
            keys = (row.model, row.benchmark, row.condition, row.turn, "")
            values.append(Value(*keys, f"{row.metric} {_FLOOR}", floor, "pp"))
    lines: dict[str, list[Line]] = {}
    for row in shown:
        line = Line(_names(row, labels), _row_place(row), bold=row in different)
        lines.setdefault(row.model, []).append(line)
    metric = f"{average} minus Native"
    caption = (
        f"{average} {'over T2--T4' if span == MEAN else f'at {span}'} minus Native's, in percentage points, "
        "paired by problem: bootstrap interval, 𝑝 of the "
        "sign-flip test, the smallest true difference that this many problems show in four runs of five, and the greatest "
        "difference of conditions that repeat Native, where there are any. Bold: different "
        "from Native with at most 5% false discoveries over the table. The CSV has every turn and metric."
    )
    ends = (f"{metric} interval low", f"{metric} interval high")
    columns = [
        Column("Benchmark", align="l"),
        Column("Condition", align="l"),
        Column("Difference", (metric,), text=signed),
        Column("95% interval", ends, text=_signed_interval, align="c"),
        Column("𝑝", (f"{metric} p",), text=lambda p: rounded(p, 3)),
        Column("Detectable", (f"{metric} detectable",), text=lambda number: rounded(number) if number else DASH),
        Column("Noise", (metric, f"{average} {_FLOOR}"), text=lambda _, floor: rounded(floor)),
    ]
    blocks = [(labels.printed_model(model), lines[model]) for model in responses.models if model in lines]
    benchmarks = [benchmark for _, benchmark in responses.pairs]
    return of_rows(source, caption, columns, blocks, values, benchmarks)


def _signed_interval(low: float, high: float) -> str:
    # Problems whose differences are all equal have no error to estimate.
    return f"{signed(low)} to {signed(high)}" if low < high else "all equal"


def _values(row: IntervalRow | ComparisonRow, group: str, columns: Mapping[str, tuple[str, str]]) -> list[Value]:
    """The numbers of a row's columns, each with the end of its metric and its unit."""
    keys = (row.model, row.benchmark, row.condition, row.turn, group)
    return [
        Value(*keys, f"{row.metric} {name}".strip(), Gap(row.gap) if row.gap else float(getattr(row, column)), unit)
        for column, (name, unit) in columns.items()
    ]


def _row_place(row: IntervalRow | ComparisonRow) -> dict[str, str]:
    return {"model": row.model, "benchmark": row.benchmark, "condition": row.condition, "turn": row.turn}


def _names(row: IntervalRow | ComparisonRow, labels: Labels) -> tuple[str, str]:
    return benchmark_title(labels, row.benchmark), labels.printed_condition(row.condition)


def _complete_families(labels: Labels, present: Sequence[str]) -> dict[str, list[str]]:
    """The families of several test-time seeds, all of them present: their members by the family's key."""
    families: dict[str, list[str]] = {}
    for condition in present:
        if (name := labels.name(condition)).seed is not None:
            families.setdefault(name.averaged, []).append(condition)
    return {key: members for key, members in families.items() if 1 < len(members) == labels.seeds(key)}


def _place(row: ComparisonRow) -> tuple[str, str, str, str]:
    """What two rows must share to be beside each other."""
    return row.model, row.benchmark, row.turn, row.metric


def _noise_floors(again: Iterable[ComparisonRow]) -> dict[tuple[str, str, str, str], float]:
    """The greatest difference, either way, of repeat conditions; by `_place`."""
    floors: dict[tuple[str, str, str, str], float] = {}
    for row in again:
        if not row.gap:
            floors[_place(row)] = max(floors.get(_place(row), 0.0), abs(row.value))
    return floors
