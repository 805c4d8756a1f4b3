"""Table in_text: the numbers that the paper gives in its text, not in a table or figure."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay_analysis import REPLAY_PARTS
from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, plain_header
from stair.paper.replay_numbers import ReplayNumbers
from stair.paper.table_inputs import analyzed_models
from stair.paper.tables import bank_runtime, replay_design, shared_t1, text_numbers
from stair.paper.tables.table import Table, gap_reasons, stacked
from stair.statistics.grid import Gap
from stair.statistics.values import Value


def build(config: Config, paths: RunPaths, labels: Labels) -> Table:
    """Every number of the text that the run has; in the CSV each under the part of the paper that prints it."""
    values: list[Value] = []
    if config.replay is not None:
        values += replay_design.in_text(config, paths)
    for model in analyzed_models(config):
        values += ReplayNumbers.of_run(config, paths, model, REPLAY_PARTS).printed()
    if config.runtime is not None:
        values += bank_runtime.in_text(config, paths)
    values += text_numbers.training_numbers(config, paths)
    values += text_numbers.gains(config, paths, labels)
    if config.controls is not None:
        values += shared_t1.in_text(config, paths, labels)
    blocks: dict[str, list[Row]] = {}
    for value in values:
        of = [name for name in (labels.printed_model(value.model), labels.benchmark(value.benchmark)) if name]
        where = [name for name in (labels.condition(value.condition), value.turn, value.group) if name]
        cells = (Cell(value.metric), Cell(", ".join(where)), Cell(_text(value)))
        blocks.setdefault(f"{value.artifact}: {', '.join(of)}", []).append(Row(cells))
    notes = [f"Not reported: {reason}." for reason in gap_reasons(values)]
    layout = Layout(
        "in_text",
        "Numbers of the text, by the part of the paper that gives them.",
        plain_header("Number", "Where", "Value"),
        stacked(list(blocks.items()), "addlinespace"),
        (*notes, *labels.notes),
        columns="llr",
        size="tiny",
    )
    return Table("in_text", "in_text", tuple(values), layout, columns=("low", "high"))


def _text(value: Value) -> str:
    if isinstance(value.value, Gap):
        return DASH
    number = f"{value.value:,}" if isinstance(value.value, int) else f"{value.value:,.6g}"
    return f"{number} {value.unit}".rstrip()
