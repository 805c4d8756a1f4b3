"""Table continuous-summary: Vanilla at T1, the continuous conditions over T2 to T4."""

from __future__ import annotations

from dataclasses import replace

from stair.paper import paper_labels
from stair.paper.labels import Labels
from stair.paper.layout import Cell, Layout, Row, grouped_header
from stair.paper.tables.table import (
    SHOWN,
    Table,
    benchmark_title,
    by_place,
    condition_row,
    notes,
    number_cells,
    reported,
    sources,
    stacked,
)
from stair.statistics.grid import Gap, Responses, unique
from stair.statistics.intervals import ROUNDING
from stair.statistics.metrics import MEAN, REFERENCE, metric_names, turn_metrics
from stair.statistics.values import Value

ARTIFACT = paper_labels.SUMMARY


def build(responses: Responses, labels: Labels) -> Table | None:
    """The table over every model and benchmark that has rows; None where there are none."""
    metrics = tuple(metric_names(responses.samples))
    benchmarks = unique(benchmark for _, benchmark in responses.pairs)
    shown = [
        condition for condition in SHOWN if any(condition in responses.conditions(*pair) for pair in responses.pairs)
    ]
    if not shown:
        return None
    numbers = by_place(turn_metrics(responses))
    values: list[Value] = []
    blocks: list[tuple[str, list[Row]]] = []
    for model in responses.models:
        columns: list[dict[str, Cell]] = []
        for benchmark in benchmarks:
            for metric in metrics:
                column: dict[str, float | Gap] = {}
                for condition in shown:
                    turn = "T1" if condition == REFERENCE else MEAN
                    place = (model, benchmark, condition, turn, metric)
                    column[condition] = numbers.get(place, Gap(f"{model}, {benchmark}, {condition}: no responses"))
                    values.append(Value(model, benchmark, condition, turn, "", metric, column[condition], "%"))
                columns.append(_cells(column))
        rows: list[Row] = []
        for condition in shown:
            row = condition_row(labels, condition, (cells[condition] for cells in columns))
            rows.append(replace(row, shaded="vanillarow") if condition == REFERENCE else row)
        blocks.append((labels.printed_model(model), rows))
    caption = (
        "Continuous reasoning results (%). Vanilla reports T1; Native and STAIR average T2--T4. Bold marks the better "
        "Native/STAIR score for each metric, including ties. Underlined STAIR scores exceed the corresponding Vanilla reference."
    )
    header = grouped_header("Condition", [benchmark_title(labels, benchmark) for benchmark in benchmarks], metrics)
    layout = Layout(
        ARTIFACT,
        caption,
        header,
        stacked(blocks, "midrule"),
        notes(labels, responses, values, benchmarks),
        columns="l" + "c" * len(benchmarks) * len(metrics),
        trimmed=False,
        separation=3,
        stretch=1.12,
    )
    shows = sources(responses, lambda key: key.condition in shown and reported(key))
    return Table("continuous_summary", ARTIFACT, tuple(values), layout, shows)


def _cells(column: dict[str, float | Gap]) -> dict[str, Cell]:
    cells = number_cells(column, [condition for condition in column if condition != REFERENCE])
    reference, compared = column.get(REFERENCE), column.get("stair")
    if isinstance(reference, float) and isinstance(compared, float) and compared > reference + ROUNDING:
        cells["stair"] = Cell(cells["stair"].text, cells["stair"].bold, underline=True)
    return cells
