"""Which tables and figures a run has, and which rows each shows. Their builders are in `stair/paper/registry.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from stair.config.controls import T1
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import Place

Shows = Callable[[Config, Sequence[Place]], Iterable[Place]]
"""Of the places that have responses, those that a table or figure shows."""

TABLE_SUFFIXES, FIGURE_SUFFIXES = (".csv", ".md", ".tex", ".html"), (".pdf", ".png", ".csv")
"""The files of a table and of a figure."""

MAIN = ("vanilla", "native", "stair")
"""The conditions of the continuous comparison, in the order of the paper's tables."""
LORA = ("native", "stair", "lora", "lora_stair")

TRAINING_FIGURE = "training_"
"""Prefix of the figures of training curves, one a model."""

BANK_COST_FIGURE = "bank_cost_"
"""Prefix of the figures of prefill cost against bank length, one a model of the runtime study."""
CONTROLLER_TABLE, DECODING_TABLE = "controller_configuration", "evaluation_decoding"
"""Tables of settings: from the controllers' files, and from the configuration alone."""

TEXT_TABLE, GAINS_FROM = "in_text", "continuous_summary"
"""The table of numbers that the text gives, and the table that STAIR's gains are counted from."""

TRAINING_SCOPE = "training_scope"
DIAGRAMS = ("method", TRAINING_SCOPE)
"""Figures of STAIR's controllers, from the controllers' files alone."""


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


def tables(config: Config, places: Sequence[Place], models: Iterable[str]) -> dict[str, Shows]:
    """What the tables of models show that have responses at these places, by the table's name, in the paper's order.

    A run without the rows of any other table has an empty one, which says so.
    """
    models = tuple(models)
    by_model = {f"{table}_{model}": _of(model) for table in ("turns", "history") for model in models}
    lora = dict.fromkeys(_LORA, _beside_lora) if any(_beside_lora(config, places)) else {}
    return {**_ALL_MODELS, **by_model, **lora}


def tables_of(config: Config) -> dict[str, Shows]:
    """The tables of a run; none where it has no responses."""
    if not config.conditions:
        return {}
    return tables(config, evaluated_places(config), config.models)


def shared_t1_tables(config: Config) -> dict[str, Shows]:
    """The tables of a run's study with a shared T1 history; their places are those of `Config.shared_t1`."""
    return {} if config.controls is None else dict(SHARED_T1)


def run_tables(config: Config) -> tuple[str, ...]:
    """The tables of a run that show no responses; their input files are in `stair/pipeline/inputs.py`."""
    return (
        *(("replay_design",) if config.replay is not None else ()),
        *(("bank_runtime",) if config.runtime is not None else ()),
        TEXT_TABLE,
        *((CONTROLLER_TABLE,) if diagram_models(config) else ()),
        *((DECODING_TABLE,) if config.conditions else ()),
    )


def analyzed_models(config: Config) -> list[str]:
    """The models whose measured replay is analyzed."""
    replay = config.replay
    return [] if replay is None or replay.analysis is None else list(replay.models)


# ---------------------------------------------------------------- which rows


def _where(test: Callable[[Config, Place], bool]) -> Shows:
    """The places that pass a test."""
    return lambda config, places: [place for place in places if test(config, place)]


def _beside_lora(config: Config, places: Sequence[Place]) -> list[Place]:
    pairs = {place[:2] for place in places if place.condition in ("lora", "lora_stair")}
    return [place for place in places if place[:2] in pairs and place.condition in LORA]


def _of(model: str) -> Shows:
    return _where(lambda config, place: place.condition in MAIN and place.model == model)


def _pooled(config: Config) -> set[str]:
    return {key for key, item in config.benchmarks.items() if item.mathematical}


_everything = _where(lambda config, place: True)
_nothing = _where(lambda config, place: False)
_main = _where(lambda config, place: place.condition in MAIN)
_mathematical = _where(lambda config, place: place.condition in MAIN and place.benchmark in _pooled(config))
_transitions = _where(
    lambda config, place: (
        place[:2] == (config.transitions.model, config.transitions.benchmark)
        and place.condition in ("vanilla", "native")
    )
)
_beside_native = _where(lambda config, place: place.condition != T1)
_prefixes = _where(
    lambda config, place: (
        place.condition in ("native", "stair") or config.conditions[place.condition].prefix is not None
    )
)
_overview = _where(lambda config, place: place.condition in MAIN and place.model in config.overview.models)


def bank_lengths(config: Config) -> list[Place]:
    """Rows that know the banks of the study with a shared T1 history: STAIR's, at the places of `Config.shared_t1`."""
    return [place for place in evaluated_places(config) if place.condition == "stair"]


# ---------------------------------------------------------------- the tables and figures

_ALL_MODELS: dict[str, Shows] = {
    "continuous_summary": _main,
    "native_accuracy": _transitions,
    "history_correctness_summary": _mathematical,
    "intervals": _everything,
    "comparisons": _everything,
}
SHARED_T1: dict[str, Shows] = {
    "shared_t1": _beside_native,
    "bank_prefix_accuracy": _prefixes,
    "shared_t1_intervals": _beside_native,
    "shared_t1_comparisons": _beside_native,
}
_LORA = ("lora_comparison", "lora_turns")
"""Not of a run without their rows."""

FIGURES: dict[str, Shows] = {
    "overview": _overview,
    "historical_computation": _transitions,
    "attention": _nothing,
    "neighborhood": _nothing,
    "read_prediction": _nothing,
}
"""By name, the rows that each shows; figures of training curves have another source."""

REPLAY_FIGURES = {
    "historical_computation": ("attention", "geometry"),
    "attention": ("attention",),
    "neighborhood": ("geometry",),
    "read_prediction": ("read_prediction",),
}
"""Figures of an analyzed replay, each with the parts that it shows: those of the first analyzed model."""


def figures_of(config: Config) -> list[str]:
    """The figures of a run that have an entry in `FIGURES`."""
    if not config.conditions:
        return []
    return [name for name in FIGURES if name not in REPLAY_FIGURES or analyzed_models(config)]


def stair_controller(config: Config) -> str | None:
    """The controller that the condition `stair` reads with; None in a run without one."""
    condition = config.conditions.get("stair")
    return condition.controller if condition is not None and config.reads_bank("stair") else None


def diagram_models(config: Config) -> list[str]:
    """The models that diagrams show: those with STAIR's controller; none in a run without one."""
    controller = stair_controller(config)
    return [] if controller is None else config.trained(controller)


def training_figures(config: Config) -> list[str]:
    """The figures of training curves: one for each model with a controller."""
    trained = {model for key in config.controllers for model in config.trained(key)}
    return [TRAINING_FIGURE + model for model in config.models if model in trained]


def cost_figures(config: Config) -> list[str]:
    """The figures of prefill cost against bank length."""
    if config.runtime is None or not config.runtime.curve:
        return []
    return [BANK_COST_FIGURE + model for model in config.runtime.models]


def every_table(config: Config) -> list[str]:
    """The tables of a run."""
    return [*tables_of(config), *shared_t1_tables(config), *run_tables(config)]


def every_figure(config: Config) -> list[str]:
    """The figures of a run."""
    diagrams = DIAGRAMS if diagram_models(config) else ()
    return [*figures_of(config), *diagrams, *training_figures(config), *cost_figures(config)]


def reported_values(config: Config, paths: RunPaths) -> list[Path]:
    """The CSVs of all numbers that tables and figures report. Training curves and diagrams report none of the paper's."""
    figures = [*cost_figures(config), *figures_of(config)]
    return [*map(paths.table, every_table(config)), *(paths.figure(name, ".csv") for name in figures)]
