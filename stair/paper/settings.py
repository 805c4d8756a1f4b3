"""The settings of the rules that show results: tables, figures, the comparison with the paper, its claims and the report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stair.config.model import Config
from stair.config.setting_places import CONFIGURATION, Settings, chosen, conditions, every, under_controls
from stair.paper.table_inputs import (
    BANK_COST_FIGURE,
    CONTROLLER_TABLE,
    DECODING_TABLE,
    DIAGRAMS,
    REPLAY_FIGURES,
    TEXT_TABLE,
    TRAINING_FIGURE,
    cost_figures,
    diagram_models,
    every_figure,
    every_table,
    figures_of,
    shared_t1_tables,
    stair_controller,
    training_figures,
)
from stair.records.code_digest import modules_digest
from stair.records.keys import digest_of, file_digest
from stair.records.manifest import CODE

# ---------------------------------------------------------------- tables


def tables(config: Config) -> Settings:
    """Any table of responses: labels, what was run, and the code."""
    return {
        "note": config.note,
        "transitions": config.transitions.model_dump(),
        "overview": config.overview.model_dump(mode="json"),
        **every("models", config.models, "label"),
        **every("benchmarks", config.benchmarks, "label", "mathematical"),
        **conditions(config, "label", "repeats", "controller", "models", "benchmarks"),
        **{
            place: value for place, value in conditions(config, "family", "seed", "prefix").items() if value is not None
        },
        **chosen("evaluation", config.evaluation, "samples", "allow_mixed_engines"),
        CODE: modules_digest("stair.paper.stage", leave_out=CONFIGURATION),
    }


def table(config: Config, table: str) -> Settings:
    """One table: as all tables, and what decides the input files of a table of something else than responses."""
    if table in shared_t1_tables(config):
        return under_controls(tables(config.shared_t1()))
    decisive = tables(config)
    if table == DECODING_TABLE:
        decisive |= every("models", config.models, "evaluation_sampling", "evaluation_changes")
    if table == CONTROLLER_TABLE:
        decisive |= {f"controllers.{stair_controller(config)}.models": diagram_models(config)}
    if table in ("replay_design", TEXT_TABLE):
        decisive |= replayed(config)
    if table in ("bank_runtime", TEXT_TABLE):
        decisive |= timed(config)
    return decisive | (_text(config) if table == TEXT_TABLE else {})


def replayed(config: Config) -> Settings:
    """The models whose histories are replayed."""
    return {} if config.replay is None else {"replay.models": list(config.replay.models)}


def analyzed(config: Config) -> Settings:
    """Whether the replay is analyzed."""
    return {} if config.replay is None else {"replay.analysis": config.replay.analysis is not None}


def timed(config: Config) -> Settings:
    """The models of the runtime study."""
    return {} if config.runtime is None else {"runtime.models": list(config.runtime.models)}


def _text(config: Config) -> Settings:
    """The training problems, controllers, statistics and banks that the text has numbers of."""
    decisive = {**analyzed(config), **trained(config, "stair", "lora"), "only_measures": config.only_measures}
    if config.controls is not None:
        study = config.shared_t1()
        decisive["controls.benchmark"] = config.controls.benchmark
        if "stair" in study.conditions:
            decisive |= under_controls(chosen("conditions.stair", study.conditions["stair"], "models", "benchmarks"))
    return decisive


def trained(config: Config, *kinds: str) -> Settings:
    """The controllers of some kinds, or all, and the models that each is trained for."""
    return {
        f"controllers.{key}.{name}": value
        for key, item in config.controllers.items()
        if not kinds or item.kind in kinds
        for name, value in (("kind", item.kind), ("models", config.trained(key)))
    }


# ---------------------------------------------------------------- figures


def figure(config: Config, figure: str) -> Settings:
    """One figure: of responses or a replay, of training curves, of prefill cost against bank length, or a diagram."""
    if figure in DIAGRAMS:
        # What a diagram says of a controller is in its inputs.
        condition = chosen("conditions.stair", config.conditions["stair"], "label", "controller")
        return _drawn(config, diagram_models(config), figure, "stair.statistics") | condition
    if figure in training_figures(config):
        model = figure.removeprefix(TRAINING_FIGURE)
        controllers = [key for key in config.controllers if model in config.trained(key)]
        return _drawn(config, [model], "training", "stair.statistics") | {"controllers": controllers}
    if figure in cost_figures(config):
        return _drawn(config, [figure.removeprefix(BANK_COST_FIGURE)], "bank_cost")
    decisive = tables(config)
    if figure in REPLAY_FIGURES:
        assert config.replay is not None and config.replay.analysis is not None
        decisive |= chosen("replay", config.replay, "models", "benchmark", "layers", "depth")
        decisive |= chosen("replay.analysis", config.replay.analysis, "reported_layer", "neighborhoods")
    return decisive


def _drawn(config: Config, models: Iterable[str], module: str, *leave_out: str) -> Settings:
    """A figure of no responses: the note, the models' labels, and the code that draws it."""
    return {
        "note": config.note,
        **{f"models.{model}.label": config.models[model].label for model in models},
        CODE: modules_digest(f"stair.paper.figures.{module}", leave_out=(*leave_out, *CONFIGURATION)),
    }


# ---------------------------------------------------------------- the summaries of the run


def comparison(config: Config) -> Settings:
    """The comparison with the paper: whose models and data these are, what was run, and the code."""
    decisive: Settings = {
        "note": config.note,
        CODE: modules_digest("stair.paper.comparison.stage", leave_out=CONFIGURATION),
        # Training curves and diagrams report no number that the paper prints.
        "tables": every_table(config),
        "figures": [*cost_figures(config), *figures_of(config)],
    }
    decisive |= every("models", config.models, "label", "repository", "tiny")
    decisive |= every("benchmarks", config.benchmarks, "label", "tiny", "mathematical")
    decisive |= conditions(config, "label", "models", "benchmarks")
    decisive |= under_controls(conditions(config.shared_t1(), "label", "models", "benchmarks"))
    return decisive | chosen("evaluation", config.evaluation, "samples")


def claims(config: Config) -> Settings:
    """The paper's claims on a run: as the comparison, and which controllers differ by their seed alone."""
    decisive = comparison(config) | conditions(config, "controller", "variant", "repeats")
    decisive |= chosen("claims", config.claims) | every("controllers", config.controllers)
    statements = file_digest(Path(__file__).parent / "claims" / "claims.yaml")
    code = [modules_digest("stair.paper.claims.stage", leave_out=CONFIGURATION), statements]
    return decisive | {CODE: digest_of(code)}


def report(config: Config) -> Settings:
    """The report page: names of what was run, and the code with its template and style."""
    decisive: Settings = {"run": config.run, "note": config.note, **shown_results(config)}
    decisive |= every("models", config.models, "label", "repository", "path", "tiny")
    decisive |= every("benchmarks", config.benchmarks, "label", "repository", "path", "tiny")
    decisive |= conditions(config, "label") | under_controls(conditions(config.shared_t1(), "label"))
    folder = Path(__file__).parent / "report"
    page = [folder / "page.html.jinja", folder / "style.css"]
    code = [modules_digest("stair.paper.report.stage", leave_out=CONFIGURATION), *map(file_digest, page)]
    return decisive | chosen("evaluation", config.evaluation, "samples") | {CODE: digest_of(code)}


def shown_results(config: Config) -> Settings:
    """Which tables, figures and summaries a run has."""
    return {
        "tables": every_table(config),
        "figures": every_figure(config),
        "only_measures": config.only_measures,
    }
