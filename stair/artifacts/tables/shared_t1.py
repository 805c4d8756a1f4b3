"""Tables shared-t1 and bank-prefix-accuracy: conditions that share one T1 history, at T2."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from stair.artifacts import mapping
from stair.artifacts.labels import Labels
from stair.artifacts.layout import DASH, Cell, Layout, Row, signed
from stair.artifacts.tables.table import Table, notes, number_cells
from stair.scoring.grid import Gap, Responses
from stair.scoring.metrics import at_turn, metric_names
from stair.scoring.shared_t1 import TURN, shared_t1_metrics, truncated_banks
from stair.scoring.tidy import Value

SHOWN = ("native", "random_reflector", "direct_read", "bank_free", "kv_permutation", "stair")
PREFIX = "stair_prefix-"
FULL = "stair_prefix-full"
"""The key under which the full bank stands among the prefixes; its rows are those of `stair`."""


def studied(responses: Responses) -> tuple[str, str] | None:
    """The model and benchmark of the study: the first, where there are several."""
    return next(((m, b) for m in responses.models for b in responses.benchmarks(m)), None)


def build(responses: Responses, labels: Labels) -> Table | None:
    """The controls beside Native and STAIR; None where no control has rows."""
    pair = studied(responses)
    if pair is None:
        return None
    found = [value for value in shared_t1_metrics(responses, *pair) if value.condition in SHOWN]
    there = [c for c in SHOWN if any(value.condition == c for value in found)]
    if not {"native", "stair"} < set(there):
        return None
    values = sorted(found, key=lambda value: SHOWN.index(value.condition))
    numbers: Mapping[tuple[str, str], float | Gap] = {(v.condition, v.metric): v.value for v in values}
    average, passed = metric_names(responses.samples)
    columns = []
    for metric, text in ((average, None), (f"{average} minus Native", signed), (passed, None)):
        column = {c: numbers[c, metric] for c in there}
        cells = number_cells(column, there)
        columns.append(cells if text is None else {c: Cell(text(v), bold=cells[c].bold) for c, v in column.items()})
    rows = tuple(
        Row(
            (Cell(labels.condition(c), bold=c == "stair"), *(column[c] for column in columns)),
            shaded="stairrow" if c == "stair" else None,
        )
        for c in there
    )
    header = (tuple((name, 1) for name in ("Condition", average, "Δ (pp)", passed)),)
    model, benchmark = pair
    grid = responses.grid(model, benchmark, "native", TURN)
    count = f"{len(grid.problems)} problems" if not isinstance(grid, Gap) else "the problems"
    caption = (
        f"Shared-T1 {labels.benchmark(benchmark)} results for {labels.model(model)} at T2 (%). Conditions share {count} and "
        f"{responses.samples} matched trajectories per problem. Random-reflector and K--V pairing average three test-time seeds; "
        f"other conditions use one evaluation. Δ is the {average} difference from Native."
    )
    layout = Layout(mapping.SHARED_T1, caption, header, rows, notes(labels, values, [benchmark]))
    return Table("shared_t1", mapping.SHARED_T1, tuple(values), layout)


def build_prefixes(responses: Responses, frame: pd.DataFrame, labels: Labels) -> Table | None:
    """Accuracy by how many of the bank's first entries are readable; None where no prefix has rows.

    `frame` holds the rows; with the column `bank_tokens`, which scored rows carry, banks longer than the budget are counted.
    """
    pair = studied(responses)
    if pair is None:
        return None
    model, benchmark = pair
    prefixes = sorted(
        (c for c in responses.conditions(model, benchmark) if c.startswith(PREFIX)),
        key=lambda c: int(c.removeprefix(PREFIX)),
    )
    if not prefixes:
        return None
    cut = {value.condition: value for value in truncated_banks(frame, model, benchmark)}
    order = {"native": "native", **{c: c for c in prefixes}, "stair": FULL}
    names = metric_names(responses.samples)
    values: list[Value] = []
    columns: dict[str, dict[str, float | Gap]] = {name: {} for name in names}
    cells: dict[str, str] = {}
    for condition, key in order.items():
        counted = cut.get(condition)
        cells[key] = DASH
        if counted is not None:
            values.append(Value(model, benchmark, key, f"T{TURN}", "", "truncated", counted.value, counted.unit))
            if not isinstance(counted.value, Gap):
                cells[key] = f"{int(counted.value)}/{counted.unit.removeprefix('inputs of ')}"
        for name, metric in names.items():
            score = at_turn(metric, responses, model, benchmark, condition, TURN)
            columns[name][key] = score
            values.append(Value(model, benchmark, key, f"T{TURN}", "", name, score, "%"))
    marked = {name: number_cells(column, column) for name, column in columns.items()}
    rows = tuple(
        Row(
            (Cell(labels.condition(key)), Cell(cells[key]), *(marked[name][key] for name in names)),
            shaded=None if key == "native" else "stairrow",
        )
        for key in order.values()
    )
    header = (tuple((name, 1) for name in ("Readable bank", "Truncated", *names)),)
    caption = (
        f"Bank-prefix accuracy on shared-T1 {labels.benchmark(benchmark)} at T2 (%). Each condition uses {responses.samples} "
        "matched sample seeds per problem. Truncated counts banks longer than the access budget."
    )
    layout = Layout(mapping.BANK_PREFIXES, caption, header, rows, notes(labels, values, [benchmark]))
    return Table("bank_prefix_accuracy", mapping.BANK_PREFIXES, tuple(values), layout)
