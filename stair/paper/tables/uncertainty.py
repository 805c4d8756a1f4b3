"""Tables intervals and comparisons: how far each number could be off, and which differences are more than chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress

import pandas as pd

from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, plain_header, rounded, signed
from stair.paper.tables.table import Table, benchmark_title, notes, sources, stacked
from stair.statistics.conditioning import CONDITIONS
from stair.statistics.grid import Gap, Responses
from stair.statistics.interval_tables import (
    ComparisonRow,
    IntervalRow,
    condition_comparisons,
    history_intervals,
    records,
    turn_intervals,
)
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE
from stair.statistics.paired import false_discoveries
from stair.statistics.shared_t1_metrics import TURN
from stair.statistics.values import Value

BASE = "native"
"""What conditions are compared with."""

_ENDS = {"low": "interval low", "high": "interval high", "rerun_low": "rerun low", "rerun_high": "rerun high"}


def intervals(responses: Responses, labels: Labels) -> Table:
    """Every score with two 95% intervals: over other problems of the kind, and over another run on these problems."""
    return _intervals("intervals", responses, labels)


def shared_t1_intervals(responses: Responses, labels: Labels) -> Table:
    """As `intervals`, of the study with a shared T1 history: at T2 alone, a test-time seed a row."""
    return _intervals("shared_t1_intervals", _second_turns(responses), labels, (f"T{TURN}",))


def comparisons(responses: Responses, labels: Labels) -> Table | None:
    """Every condition with later turns against Native, paired by problem; None where there is nothing to compare.

    Repeat conditions of Native give the noise floor, the difference without any effect. It is beside every effect and is
    not tested.
    """
    return _comparisons("comparisons", responses, labels, LATER_TURNS)


def shared_t1_comparisons(responses: Responses, labels: Labels) -> Table | None:
    """As `comparisons`, of the study with a shared T1 history: at T2 alone.

    Each test-time seed has a row, and so has the average of a family's seeds.
    """
    return _comparisons("shared_t1_comparisons", _second_turns(responses), labels, (TURN,))


def _second_turns(responses: Responses) -> Responses:
    return replace(responses, grids={key: grid for key, grid in responses.grids.items() if key.turn == TURN})


def _intervals(table: str, responses: Responses, labels: Labels, turns: Sequence[str] | None = None) -> Table:
    """The intervals of these turns; None: of every turn and of the mean over later ones."""
    scores = turn_intervals(responses)
    frames = [scores if turns is None else scores[scores["turn"].isin(turns)]]
    for model, benchmark in responses.pairs:
        present = responses.conditions(model, benchmark)
        compared = [condition for condition in CONDITIONS if condition in present]
        if REFERENCE in present and compared:
            frames.append(history_intervals(responses, model, benchmark, compared))
    values = _interval_values(frames)
    average = f"Avg@{responses.samples}"
    shown = frames[0][frames[0]["metric"] == average]
    blocks = [
        (labels.printed_model(model), _interval_rows(shown, responses, labels, model)) for model in responses.models
    ]
    header = plain_header("Benchmark", "Condition", "Turns", average, "Other problems", "Another run")
    caption = (
        f"{average} (%) with 95% intervals: for other problems of the same kind (bootstrap over problems), and for another run "
        "of the same design on these problems (both runs' sampling noise). The CSV has every turn, group and metric."
    )
    layout = Layout(
        table,
        caption,
        header,
        stacked(blocks, "midrule"),
        _notes(labels, responses, values),
        columns="lllrcc",
        separation=3,
        size="footnotesize",
    )
    return Table(table, table, tuple(values), layout, sources(responses, lambda key: True))


def _interval_values(frames: Iterable[pd.DataFrame]) -> list[Value]:
    """The ends of both intervals of every score."""
    values = []
    for row in (row for frame in frames for row in records(frame, IntervalRow)):
        keys = (row.model, row.benchmark, row.condition, row.turn, row.group)
        for column, name in _ENDS.items():
            end = Gap(row.gap) if row.gap else float(getattr(row, column))
            values.append(Value(*keys, f"{row.metric} {name}", end, "%"))
    return values


def _interval_rows(shown: pd.DataFrame, responses: Responses, labels: Labels, model: str) -> list[Row]:
    """A model's block: a row for each condition, of its T2-T4 mean or else of its first turn in `shown`."""
    rows = []
    for benchmark in responses.benchmarks(model):
        for condition in responses.conditions(model, benchmark):
            place = (shown["model"] == model) & (shown["benchmark"] == benchmark) & (shown["condition"] == condition)
            by_turn = {row.turn: row for row in records(shown[place], IntervalRow)}
            row = by_turn.get(MEAN) or next(iter(by_turn.values()))
            cells = [DASH] * 3
            if not row.gap:
                cells = [
                    rounded(row.value),
                    f"{rounded(row.low, 1)} to {rounded(row.high, 1)}",
                    f"{rounded(row.rerun_low, 1)} to {rounded(row.rerun_high, 1)}",
                ]
            names = (
                benchmark_title(labels, benchmark),
                labels.printed_condition(condition),
                row.turn.replace("-", "--"),
            )
            rows.append(Row(tuple(Cell(text) for text in (*names, *cells))))
    return rows


def _comparisons(table: str, responses: Responses, labels: Labels, turns: Sequence[int]) -> Table | None:
    span = MEAN if tuple(turns) == LATER_TURNS else f"T{turns[0]}"
    frames: list[pd.DataFrame] = []
    for model, benchmark in responses.pairs:
        present = responses.conditions(model, benchmark)
        for condition in present:
            later = max(responses.turns(model, benchmark, condition)) > 1
            if BASE in present and condition != BASE and later:
                frames.append(condition_comparisons(responses, model, benchmark, condition, BASE, turns=turns))
        if BASE in present:
            for family, members in _complete_families(labels, present).items():
                frames.append(
                    condition_comparisons(responses, model, benchmark, family, BASE, turns=turns, members=members)
                )
    if not frames:
        return None
    differences = pd.concat(frames, ignore_index=True)
    average = f"Avg@{responses.samples}"
    again = [condition for condition, repeated in labels.repeats.items() if repeated == BASE]
    every = records(differences, ComparisonRow)
    floors = _noise_floors(row for row in every if row.condition in again)
    shown = [row for row in every if (row.turn, row.metric) == (span, average)]
    tested = [row for row in shown if not row.gap and row.condition not in again]
    different = set(compress(tested, false_discoveries([row.p for row in tested])))
    # A noise floor stands beside effects, not beside the noise that it is made from.
    beside = {row: None if row.condition in again else floors.get(_place(row)) for row in every}
    values = [value for row in every for value in _comparison_values(row, beside[row])]
    blocks = []
    for model in responses.models:
        rows = [_comparison_row(row, beside[row], labels, row in different) for row in shown if row.model == model]
        if rows:
            blocks.append((labels.printed_model(model), rows))
    header = plain_header("Benchmark", "Condition", "Difference", "95% interval", "𝑝", "Detectable", "Noise")
    caption = (
        f"{average} {'over T2--T4' if span == MEAN else f'at {span}'} minus Native's, in percentage points, "
        "paired by problem: bootstrap interval, 𝑝 of the "
        "sign-flip test, the smallest true difference that this many problems show in four runs of five, and the greatest "
        "difference of conditions that repeat Native, where there are any. Bold: different "
        "from Native with at most 5% false discoveries over the table. The CSV has every turn and metric."
    )
    layout = Layout(
        table,
        caption,
        header,
        stacked(blocks, "midrule"),
        _notes(labels, responses, values),
        columns="llrcrrr",
        separation=3,
        size="footnotesize",
    )
    compared = {tuple(keys) for keys in differences[["model", "benchmark", "condition"]].to_numpy()}
    compared |= {(model, benchmark, BASE) for model, benchmark, _ in compared}
    shows = sources(responses, lambda key: key[:3] in compared and key.turn > 1)
    return Table(table, table, tuple(values), layout, shows)


def _comparison_values(row: ComparisonRow, floor: float | None) -> Iterator[Value]:
    """The numbers of a comparison, and the noise floor of its place where there is one."""
    keys = (row.model, row.benchmark, row.condition, row.turn, "")
    for column, name, unit in (
        ("value", "minus Native", "pp"),
        ("low", "minus Native interval low", "pp"),
        ("high", "minus Native interval high", "pp"),
        ("detectable", "minus Native detectable", "pp"),
        ("p", "minus Native p", ""),
    ):
        number = Gap(row.gap) if row.gap else float(getattr(row, column))
        yield Value(*keys, f"{row.metric} {name}", number, unit)
    if floor is not None:
        yield Value(*keys, f"{row.metric} minus Native noise floor", floor, "pp")


def _comparison_row(row: ComparisonRow, floor: float | None, labels: Labels, different: bool) -> Row:
    cells = [DASH] * 5
    if not row.gap:
        interval = f"{signed(row.low)} to {signed(row.high)}"
        cells = [signed(row.value), interval, rounded(row.p, 3), rounded(row.detectable)]
        cells.append(DASH if floor is None else rounded(floor))
    names = (benchmark_title(labels, row.benchmark), labels.printed_condition(row.condition))
    return Row((*(Cell(name) for name in names), *(Cell(text, bold=different) for text in cells)))


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


def _notes(labels: Labels, responses: Responses, values: Iterable[Value]) -> tuple[str, ...]:
    return notes(labels, responses, values, (benchmark for _, benchmark in responses.pairs))
