"""Table native_accuracy: how Native's answers change against Vanilla's T1."""

from __future__ import annotations

from stair.paper import paper_labels
from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, plain_header, signed
from stair.paper.tables.table import Table, comparison_title, notes, reported, sources
from stair.statistics.grid import Gap, Responses
from stair.statistics.transitions import answer_transitions

_COLUMNS = {
    "wrong to correct": "W to C",
    "correct to wrong": "C to W",
    "correct to correct": "C to C",
    "wrong to wrong": "W to W",
    "net change": "Net change",
}


def build(responses: Responses, labels: Labels, model: str, benchmark: str) -> Table | None:
    """The transitions of one model on one benchmark; None where Vanilla or Native has no rows there."""
    if not {"vanilla", "native"} <= set(responses.conditions(model, benchmark)):
        return None
    values = answer_transitions(responses, model, benchmark)
    numbers = {(v.turn, v.metric): v.value for v in values}
    rows = tuple(
        Row((Cell(turn), *(Cell(_text(metric, numbers[turn, metric])) for metric in _COLUMNS)))
        for turn in ("T2", "T3", "T4")
    )
    caption = (
        f"{comparison_title(labels, model, benchmark)}: answer transitions relative to Vanilla T1. C and W denote "
        "correct and wrong answers. Net changes are in percentage points."
    )
    header = plain_header("Turn", *_COLUMNS.values())
    layout = Layout(
        paper_labels.TRANSITIONS,
        caption,
        header,
        rows,
        notes(labels, responses, values, [benchmark]),
        columns="lrrrrl",
        trimmed=False,
    )
    shows = sources(
        responses,
        lambda key: key[:2] == (model, benchmark) and key.condition in ("vanilla", "native") and reported(key),
    )
    return Table("native_accuracy", paper_labels.TRANSITIONS, tuple(values), layout, shows)


def _text(metric: str, value: float | Gap) -> str:
    if isinstance(value, Gap):
        return DASH
    if metric != "net change":
        return f"{int(value):,}"
    return signed(value)
