"""The tables and figures that follow from response rows: name, the paper's artifact, the rows that each shows, its builder.

Known without pandas, for the graph asks which rows a table is made from. Builders are imported when they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stair.artifacts import mapping
from stair.config.model import Config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stair.artifacts.figures.figure import Figure
    from stair.artifacts.labels import Labels
    from stair.artifacts.tables.table import Table
    from stair.scoring.grid import Gap, Responses


class Place(NamedTuple):
    """Responses of one condition."""

    model: str
    benchmark: str
    condition: str


Shows = Callable[[Config, Sequence[Place]], Iterable[Place]]
"""Of the places that have responses, those that a table or figure shows."""

MAIN = ("vanilla", "native", "stair")
"""The conditions of the continuous comparison, in the order of the paper's tables."""
LORA = ("native", "stair", "lora", "lora_stair")


@dataclass(frozen=True)
class Source:
    """What a builder has."""

    responses: Responses
    """Of the places that the table shows."""
    labels: Labels
    config: Config
    trained: Mapping[tuple[str, str], int | Gap] = field(default_factory=dict)
    """Parameters by (model, condition), where known."""


@dataclass(frozen=True)
class TableEntry:
    """A table of a run."""

    name: str
    artifact: str
    """The paper's label; a table that the paper does not have goes by its name."""
    shows: Shows
    build: Callable[[Source], Table | None]
    """None where the rows do not give the table."""
    optional: bool = False
    """Whether a run without its rows has no such table; else it has one that says why it is empty."""


@dataclass(frozen=True)
class FigureEntry:
    """A figure of a run."""

    name: str
    artifact: str
    shows: Shows
    build: Callable[[Source], Figure]


def evaluated_places(config: Config) -> list[Place]:
    """Every place that a run evaluates, in the order of the configuration."""
    pairs = {condition: config.evaluated(condition) for condition in config.conditions}
    return [
        Place(model, benchmark, condition)
        for model in config.models
        for benchmark in config.benchmarks
        for condition in config.conditions
        if (model, benchmark) in pairs[condition]
    ]


def tables(config: Config, places: Sequence[Place], models: Iterable[str]) -> dict[str, TableEntry]:
    """The tables of models that have responses at these places, by name, in the paper's order."""
    models = tuple(models)
    entries = (
        *_ALL_MODELS,
        *(_turns(model) for model in models),
        *(_history(model) for model in models),
        *_LORA,
    )
    return {each.name: each for each in entries if not each.optional or any(True for _ in each.shows(config, places))}


def tables_of(config: Config) -> dict[str, TableEntry]:
    """The tables of a run."""
    return tables(config, evaluated_places(config), config.models)


# ---------------------------------------------------------------- which rows


def _everything(config: Config, places: Sequence[Place]) -> Sequence[Place]:
    return places


def _main(config: Config, places: Sequence[Place]) -> list[Place]:
    return [place for place in places if place.condition in MAIN]


def _mathematical(config: Config, places: Sequence[Place]) -> list[Place]:
    pooled = {key for key, item in config.benchmarks.items() if item.mathematical}
    return [place for place in _main(config, places) if place.benchmark in pooled]


def _transitions(config: Config, places: Sequence[Place]) -> list[Place]:
    where = (config.transitions.model, config.transitions.benchmark)
    return [place for place in places if place[:2] == where and place.condition in ("vanilla", "native")]


def _beside_lora(config: Config, places: Sequence[Place]) -> list[Place]:
    pairs = {place[:2] for place in places if place.condition in ("lora", "lora_stair")}
    return [place for place in places if place[:2] in pairs and place.condition in LORA]


def _overview(config: Config, places: Sequence[Place]) -> list[Place]:
    return [place for place in _main(config, places) if place.model in config.overview.models]


# ---------------------------------------------------------------- builders


def _build_summary(source: Source) -> Table | None:
    from stair.artifacts.tables import continuous_summary

    return continuous_summary.build(source.responses, source.labels)


def _build_accuracy(source: Source) -> Table | None:
    from stair.artifacts.tables import native_accuracy

    where = source.config.transitions
    return native_accuracy.build(source.responses, source.labels, where.model, where.benchmark)


def _build_pooled(source: Source) -> Table | None:
    from stair.artifacts.tables import history

    return history.build_pooled(source.responses, source.labels)


def _build_intervals(source: Source) -> Table:
    from stair.artifacts.tables import uncertainty

    return uncertainty.intervals(source.responses, source.labels)


def _build_comparisons(source: Source) -> Table | None:
    from stair.artifacts.tables import uncertainty

    return uncertainty.comparisons(source.responses, source.labels)


def _build_lora(source: Source) -> Table | None:
    from stair.artifacts.tables import lora

    return lora.build_comparison(source.responses, source.labels, source.trained)


def _build_lora_turns(source: Source) -> Table | None:
    from stair.artifacts.tables import lora

    return lora.build_turns(source.responses, source.labels)


def _build_overview(source: Source) -> Figure:
    from stair.artifacts.figures import overview

    return overview.build(source.responses, source.labels, source.config.overview.models)


def _turns(model: str) -> TableEntry:
    def build(source: Source) -> Table | None:
        from stair.artifacts.tables import turns

        return turns.build(source.responses, source.labels, model)

    return TableEntry(f"turns_{model}", mapping.turns(model), _of(model), build)


def _history(model: str) -> TableEntry:
    def build(source: Source) -> Table | None:
        from stair.artifacts.tables import history

        return history.build(source.responses, source.labels, model)

    return TableEntry(f"history_{model}", mapping.history(model), _of(model), build)


def _of(model: str) -> Shows:
    def shows(config: Config, places: Sequence[Place]) -> Iterator[Place]:
        return (place for place in _main(config, places) if place.model == model)

    return shows


# ---------------------------------------------------------------- the registries

_ALL_MODELS = (
    TableEntry("continuous_summary", mapping.SUMMARY, _main, _build_summary),
    TableEntry("native_accuracy", mapping.TRANSITIONS, _transitions, _build_accuracy),
    TableEntry("history_correctness_summary", mapping.POOLED, _mathematical, _build_pooled),
    TableEntry("intervals", "intervals", _everything, _build_intervals),
    TableEntry("comparisons", "comparisons", _everything, _build_comparisons),
)
_LORA = (
    TableEntry("lora_comparison", mapping.LORA, _beside_lora, _build_lora, optional=True),
    TableEntry("lora_turns", mapping.LORA_TURNS, _beside_lora, _build_lora_turns, optional=True),
)
FIGURES = {each.name: each for each in (FigureEntry("overview", mapping.OVERVIEW, _overview, _build_overview),)}
"""By name; figures of training curves have another source."""
