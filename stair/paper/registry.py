"""The builder of each table and figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper.figures import attention, historical_computation, neighborhood, overview, read_prediction
from stair.paper.figures.figure import Figure
from stair.paper.labels import Labels
from stair.paper.replay_numbers import ReplayNumbers
from stair.paper.tables import (
    accuracy,
    bank_runtime,
    controller_configuration,
    evaluation_decoding,
    history,
    in_text,
    replay_design,
    shared_t1,
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

    @property
    def transitions(self) -> tuple[str, str]:
        """The model and benchmark whose answer transitions are shown."""
        return self.config.transitions.model, self.config.transitions.benchmark

    @property
    def replayed(self) -> ReplayNumbers:
        """`replay`, of a figure that shows it."""
        assert self.replay is not None, "the graph has no figure of a replay then"
        return self.replay


def table_builder(name: str) -> Callable[[Source], Table | None]:
    """The builder of a table that `stair.paper.table_inputs` names; None where the rows do not give the table."""
    kind, _, model = name.partition("_")
    if name not in TABLES and kind == "turns":
        return lambda s: accuracy.turns(s.responses, s.labels, model)
    if name not in TABLES and kind == "history":
        return lambda s: history.history(s.responses, s.labels, model)
    return TABLES[name]


TABLES: dict[str, Callable[[Source], Table | None]] = {
    "continuous_summary": lambda s: accuracy.summary(s.responses, s.labels),
    "native_accuracy": lambda s: history.transitions(s.responses, s.labels, *s.transitions),
    "history_correctness_summary": lambda s: history.pooled(s.responses, s.labels),
    "intervals": lambda s: uncertainty.intervals(s.responses, s.labels),
    "comparisons": lambda s: uncertainty.comparisons(s.responses, s.labels),
    "lora_comparison": lambda s: accuracy.lora_comparison(s.responses, s.labels, s.trained),
    "lora_turns": lambda s: accuracy.lora_turns(s.responses, s.labels),
    "shared_t1": lambda s: shared_t1.build(s.responses, s.labels),
    "bank_prefix_accuracy": lambda s: shared_t1.build_prefixes(s.responses, s.rows, s.labels),
    "shared_t1_intervals": lambda s: uncertainty.shared_t1_intervals(s.responses, s.labels),
    "shared_t1_comparisons": lambda s: uncertainty.shared_t1_comparisons(s.responses, s.labels),
}
RUN_TABLES: dict[str, Callable[[Config, RunPaths, Labels], Table]] = {
    "replay_design": replay_design.build,
    "bank_runtime": bank_runtime.build,
    "in_text": in_text.build,
    "controller_configuration": controller_configuration.of_run,
    "evaluation_decoding": evaluation_decoding.build,
}
FIGURES: dict[str, Callable[[Source], Figure]] = {
    "overview": lambda s: overview.build(s.responses, s.sizes, s.labels, s.config.overview.models),
    "historical_computation": lambda s: historical_computation.build(
        s.replayed, transition_shares(s.responses, *s.transitions), s.labels
    ),
    "attention": lambda s: attention.build(s.replayed, s.labels),
    "neighborhood": lambda s: neighborhood.build(s.replayed, s.labels),
    "read_prediction": lambda s: read_prediction.build(s.replayed, s.labels),
}
