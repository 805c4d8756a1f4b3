"""The builder of each table and figure that follows from response rows, and the paper's name for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stair.config.model import Config
from stair.reporting import mapping
from stair.reporting.figures import overview
from stair.reporting.figures.figure import Figure
from stair.reporting.labels import Labels
from stair.reporting.tables import continuous_summary, history, lora, native_accuracy, turns, uncertainty
from stair.reporting.tables.table import Table
from stair.statistics.grid import Gap, Responses
from stair.statistics.tidy import Value


@dataclass(frozen=True)
class Source:
    """What a builder has."""

    responses: Responses
    """Of the places that the table shows."""
    labels: Labels
    config: Config
    trained: Mapping[tuple[str, str], int | Gap] = field(default_factory=dict)
    """Parameters by (model, condition), where known."""
    sizes: tuple[Value, ...] = ()
    """Tokens that turns are given to read."""


class TableBuilder(NamedTuple):
    """How a table is made."""

    artifact: str
    """The paper's label; a table that the paper does not have goes by its name."""
    build: Callable[[Source], Table | None]
    """None where the rows do not give the table."""


class FigureBuilder(NamedTuple):
    """How a figure is made."""

    artifact: str
    build: Callable[[Source], Figure]


def table_builder(name: str) -> TableBuilder:
    """The builder of one of the tables that `stair.graph.tables` names."""
    kind, _, model = name.partition("_")
    if name not in _TABLES and kind == "turns":
        return TableBuilder(mapping.turns(model), lambda s: turns.build(s.responses, s.labels, model))
    if name not in _TABLES and kind == "history":
        return TableBuilder(mapping.history(model), lambda s: history.build(s.responses, s.labels, model))
    return _TABLES[name]


def _accuracy(source: Source) -> Table | None:
    where = source.config.transitions
    return native_accuracy.build(source.responses, source.labels, where.model, where.benchmark)


_TABLES = {
    "continuous_summary": TableBuilder(
        mapping.SUMMARY, lambda source: continuous_summary.build(source.responses, source.labels)
    ),
    "native_accuracy": TableBuilder(mapping.TRANSITIONS, _accuracy),
    "history_correctness_summary": TableBuilder(
        mapping.POOLED, lambda source: history.build_pooled(source.responses, source.labels)
    ),
    "intervals": TableBuilder("intervals", lambda source: uncertainty.intervals(source.responses, source.labels)),
    "comparisons": TableBuilder("comparisons", lambda source: uncertainty.comparisons(source.responses, source.labels)),
    "lora_comparison": TableBuilder(
        mapping.LORA, lambda source: lora.build_comparison(source.responses, source.labels, source.trained)
    ),
    "lora_turns": TableBuilder(mapping.LORA_TURNS, lambda source: lora.build_turns(source.responses, source.labels)),
}
FIGURES = {
    "overview": FigureBuilder(
        mapping.OVERVIEW,
        lambda source: overview.build(source.responses, source.sizes, source.labels, source.config.overview.models),
    ),
}
