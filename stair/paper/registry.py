"""The builder of each table and figure, and the paper's name for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper import paper_labels
from stair.paper.figures import attention, historical_computation, neighborhood, overview, read_prediction
from stair.paper.figures.figure import Figure
from stair.paper.labels import Labels
from stair.paper.replay_numbers import ReplayNumbers
from stair.paper.tables import (
    bank_runtime,
    continuous_summary,
    controller_configuration,
    evaluation_decoding,
    history,
    in_text,
    lora,
    native_accuracy,
    replay_design,
    shared_t1,
    turns,
    uncertainty,
)
from stair.paper.tables.table import Table
from stair.statistics.grid import Gap, Responses
from stair.statistics.transitions import transition_shares
from stair.statistics.values import Value


@dataclass(frozen=True)
class Source:
    """The inputs of a builder."""

    responses: Responses
    """The grids of the places that the table shows."""
    labels: Labels
    config: Config
    trained: Mapping[tuple[str, str], int | Gap] = field(default_factory=dict)
    """Parameters by (model, condition), where known."""
    sizes: tuple[Value, ...] = ()
    """Tokens that turns are given to read."""
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The rows of these places, for numbers that no grid has."""
    replay: ReplayNumbers | None = None
    """The statistics that a figure of a replay shows."""


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


class RunTableBuilder(NamedTuple):
    """How a table that shows no responses is made, from other files of a run."""

    artifact: str
    build: Callable[[Config, RunPaths, Labels], Table]


def table_builder(name: str) -> TableBuilder:
    """The builder of one of the tables that `stair.paper.table_inputs` names."""
    kind, _, model = name.partition("_")
    if name not in _TABLES and kind == "turns":
        return TableBuilder(paper_labels.turns(model), lambda s: turns.build(s.responses, s.labels, model))
    if name not in _TABLES and kind == "history":
        return TableBuilder(paper_labels.history(model), lambda s: history.build(s.responses, s.labels, model))
    return _TABLES[name]


def _accuracy(source: Source) -> Table | None:
    where = source.config.transitions
    return native_accuracy.build(source.responses, source.labels, where.model, where.benchmark)


_TABLES = {
    "continuous_summary": TableBuilder(
        paper_labels.SUMMARY, lambda source: continuous_summary.build(source.responses, source.labels)
    ),
    "native_accuracy": TableBuilder(paper_labels.TRANSITIONS, _accuracy),
    "history_correctness_summary": TableBuilder(
        paper_labels.POOLED, lambda source: history.build_pooled(source.responses, source.labels)
    ),
    "intervals": TableBuilder("intervals", lambda source: uncertainty.intervals(source.responses, source.labels)),
    "comparisons": TableBuilder("comparisons", lambda source: uncertainty.comparisons(source.responses, source.labels)),
    "lora_comparison": TableBuilder(
        paper_labels.LORA, lambda source: lora.build_comparison(source.responses, source.labels, source.trained)
    ),
    "lora_turns": TableBuilder(
        paper_labels.LORA_TURNS, lambda source: lora.build_turns(source.responses, source.labels)
    ),
    "shared_t1": TableBuilder(paper_labels.SHARED_T1, lambda source: shared_t1.build(source.responses, source.labels)),
    "bank_prefix_accuracy": TableBuilder(
        paper_labels.BANK_PREFIXES,
        lambda source: shared_t1.build_prefixes(source.responses, source.rows, source.labels),
    ),
    "shared_t1_intervals": TableBuilder(
        "shared_t1_intervals", lambda source: uncertainty.shared_t1_intervals(source.responses, source.labels)
    ),
    "shared_t1_comparisons": TableBuilder(
        "shared_t1_comparisons", lambda source: uncertainty.shared_t1_comparisons(source.responses, source.labels)
    ),
}
RUN_TABLES = {
    "replay_design": RunTableBuilder(paper_labels.REPLAY_DESIGN, replay_design.build),
    "bank_runtime": RunTableBuilder(paper_labels.BANK_RUNTIME, bank_runtime.build),
    "in_text": RunTableBuilder("in_text", in_text.build),
    "controller_configuration": RunTableBuilder(paper_labels.CONTROLLERS, controller_configuration.of_run),
    "evaluation_decoding": RunTableBuilder(paper_labels.DECODING, evaluation_decoding.build),
}


def _historical_computation(source: Source) -> Figure:
    where = source.config.transitions
    transitions = transition_shares(source.responses, where.model, where.benchmark)
    return historical_computation.build(_replay(source), transitions, source.labels)


def _replay(source: Source) -> ReplayNumbers:
    assert source.replay is not None, "the graph has no figure of a replay then"
    return source.replay


FIGURES = {
    "overview": FigureBuilder(
        paper_labels.OVERVIEW,
        lambda source: overview.build(source.responses, source.sizes, source.labels, source.config.overview.models),
    ),
    "historical_computation": FigureBuilder(paper_labels.HISTORICAL_COMPUTATION, _historical_computation),
    "attention": FigureBuilder(paper_labels.ATTENTION, lambda source: attention.build(_replay(source), source.labels)),
    "neighborhood": FigureBuilder(
        paper_labels.NEIGHBORHOOD, lambda source: neighborhood.build(_replay(source), source.labels)
    ),
    "read_prediction": FigureBuilder(
        paper_labels.READ_PREDICTION, lambda source: read_prediction.build(_replay(source), source.labels)
    ),
}
