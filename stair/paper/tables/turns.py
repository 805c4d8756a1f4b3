"""Tables turns-<model>: Avg@4 and Pass@4 of every turn, and the mean over T2 to T4."""

from __future__ import annotations

from dataclasses import replace

from stair.paper import paper_labels
from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, grouped_header
from stair.paper.tables.table import (
    SHOWN,
    Table,
    benchmark_title,
    by_place,
    condition_row,
    notes,
    number_cells,
    sources,
    stacked,
)
from stair.statistics.grid import Gap, Responses
from stair.statistics.metrics import MEAN, metric_names, turn_metrics
from stair.statistics.values import Value

_TURNS = ("T1", "T2", "T3", "T4", MEAN)


def build(responses: Responses, labels: Labels, model: str) -> Table | None:
    """One model's table over its benchmarks; None where it has no rows."""
    metrics = tuple(metric_names(responses.samples))
    numbers = by_place(turn_metrics(responses))
    values: list[Value] = []
    blocks: list[tuple[str, list[Row]]] = []
    for benchmark in responses.benchmarks(model):
        shown = [condition for condition in SHOWN if condition in responses.conditions(model, benchmark)]
        lines: dict[str, list[Cell]] = {condition: [] for condition in shown}
        for turn in _TURNS:
            for metric in metrics:
                column: dict[str, float | Gap] = {}
                for condition in shown:
                    if max(responses.turns(model, benchmark, condition)) == 1 and turn != "T1":
                        continue
                    place = (model, benchmark, condition, turn, metric)
                    column[condition] = numbers.get(
                        place, Gap(f"{model}, {benchmark}, {condition}, {turn}: no responses")
                    )
                    values.append(Value(model, benchmark, condition, turn, "", metric, column[condition], "%"))
                # T1 is shared, so nothing stands out there.
                cells = number_cells(column, column if turn != "T1" else ())
                for condition in shown:
                    lines[condition].append(cells.get(condition, Cell(DASH)))
        block = [condition_row(labels, condition, lines[condition]) for condition in shown]
        # In the paper's tables by turn, the last block is followed by a space, too.
        block[-1] = replace(block[-1], rule="addlinespace")
        blocks.append((benchmark_title(labels, benchmark), block))
    if not blocks:
        return None
    header = grouped_header("Condition", ("T1", "T2", "T3", "T4", "Mean"), metrics)
    artifact = paper_labels.turns(model)
    caption = f"{labels.printed_model(model)}: results by turn (%). Mean averages T2--T4."
    layout = Layout(
        artifact,
        caption,
        header,
        stacked(blocks, "addlinespace"),
        notes(labels, responses, values, responses.benchmarks(model)),
        separation=2,
    )
    shows = sources(responses, lambda key: key.model == model and key.condition in SHOWN)
    return Table(f"turns_{model}", artifact, tuple(values), layout, shows)
