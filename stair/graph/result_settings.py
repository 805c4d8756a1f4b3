"""The settings of each rule that only calculates or shows: scores, checks, statistics, tables, figures, cards, reports.

They are the configuration keys that the rule uses, as in `settings`, and under `code` a digest of the modules that the rule
imports, so that it reruns when its code changes.
"""

from __future__ import annotations

from pathlib import Path

from stair.config.model import Config
from stair.config.rule_settings import Settings, chosen, source
from stair.graph import settings
from stair.graph.code_digest import modules_digest
from stair.graph.table_inputs import DECODING_TABLE, REPLAY_FIGURES, diagram_models, shared_t1_tables
from stair.records.keys import digest_of, file_digest

CODE = "code"
"""The key of the code's digest; every other key is a place in the configuration, or a version that is raised by hand."""

_CONFIGURATION = ("stair.config",)
"""Left out of digests of code: a rule's settings have the values, and a new key must make no result stale."""


def _conditions(config: Config, *keys: str) -> Settings:
    """Some keys of every condition."""
    return {
        place: value
        for key, item in config.conditions.items()
        for place, value in chosen(f"conditions.{key}", item, *keys).items()
    }


def data_report(config: Config) -> Settings:
    """The data report: what is shown of which data set, and the code."""
    sets = [
        ("training_pool", config.training_pool),
        *((f"benchmarks.{k}", item) for k, item in config.benchmarks.items()),
    ]
    decisive: Settings = {"note": config.note, CODE: modules_digest("stair.data.report", leave_out=_CONFIGURATION)}
    for place, item in sets:
        decisive |= source(place, item) | chosen(place, item, "publish_text", "exclude_ids")
    return decisive


def data_card(config: Config, model: str) -> Settings:
    """The data card of a model's training responses, and the code that writes it."""
    return {
        **settings.rollouts(config, model),
        f"models.{model}.label": config.models[model].label,
        "training_pool.publish_text": config.training_pool.publish_text,
        **settings.training_pool(config, model),
        **{
            f"benchmarks.{key}.{name}": value
            for key, benchmark in config.benchmarks.items()
            for name, value in (("label", benchmark.label), ("left_out", len(benchmark.exclude_ids)))
        },
        "note": config.note,
        CODE: modules_digest("stair.rollouts.card", leave_out=_CONFIGURATION),
    }


def response_card(config: Config, model: str) -> Settings:
    """The data card of a model's evaluation responses, and the code that writes it."""
    return {
        f"models.{model}.label": config.models[model].label,
        "note": config.note,
        CODE: modules_digest("stair.evaluation.card", leave_out=_CONFIGURATION),
    }


_REPLAY_ANALYSES = {
    "attention": ("attention_masses", ("reported_layer", "seed", "resamples")),
    "geometry": (
        "geometry",
        (
            "reported_layer",
            "neighborhoods",
            "folds",
            "history_pairs",
            "shuffles",
            "exclude_fixed_points",
            "whitening",
            "seed",
            "resamples",
        ),
    ),
    "read_prediction": ("increments", ("read_dimension", "seed", "resamples")),
}
"""The module of each part of the replay's analysis, and the keys that it uses."""


def replay_statistics(config: Config, part: str) -> Settings:
    """A part of the replay's analysis: its keys and its code."""
    assert config.replay is not None and config.replay.analysis is not None
    module, keys = _REPLAY_ANALYSES[part]
    layers = list(config.replay.layers)
    # Attention needs the first layer alone, to give its number an interval.
    shown: dict[str, Settings] = {
        "attention": {"replay.layers.0": layers[0]},
        "read_prediction": {"replay.layers": layers},
    }
    # The categories come from a module that also labels conversations.
    left_out = ("stair.conversation", *_CONFIGURATION)
    return {
        **shown.get(part, {}),
        **chosen("replay.analysis", config.replay.analysis, *keys),
        CODE: modules_digest(f"stair.replay.analysis.{module}", leave_out=left_out),
    }


def runtime_figure(config: Config, model: str) -> Settings:
    """The figure of a model's prefill cost against bank length."""
    return {
        "note": config.note,
        f"models.{model}.label": config.models[model].label,
        CODE: modules_digest("stair.reporting.figures.bank_cost", leave_out=_CONFIGURATION),
    }


def scores(config: Config, benchmark: str) -> Settings:
    """Verdicts on one benchmark's responses, and the code that gives them."""
    # Nothing imports the worker: it is started as a program.
    code = modules_digest("stair.evaluation.scores", "stair.grading.worker")
    return {f"benchmarks.{benchmark}.kind": config.benchmarks[benchmark].kind, CODE: code}


def checks(config: Config) -> Settings:
    """The invariants, and the code that checks them."""
    pool = config.training_pool.model_dump(mode="json", include={"exclude_benchmarks", "exclude_more"})
    return {
        **{f"models.{key}.thinking": model.thinking for key, model in config.models.items()},
        **_conditions(config, "turns", "first_turn", "controller", "variant", "models", "benchmarks"),
        **{f"conditions.{key}.reads_bank": config.reads_bank(key) for key in config.conditions},
        **_checked_controls(config.shared_t1()),
        **{f"training_pool.{key}": value for key, value in pool.items()},
        **chosen("evaluation", config.evaluation, "samples", "allow_mixed_engines"),
        **(chosen("evaluation", config.evaluation, "missing") if config.evaluation.missing else {}),
        CODE: modules_digest("stair.checks.stage", leave_out=_CONFIGURATION),
    }


def _checked_controls(study: Config) -> Settings:
    """What the checks of the study with a shared T1 history depend on."""
    if not study.conditions:
        return {}
    missing = chosen("evaluation", study.evaluation, "missing") if study.evaluation.missing else {}
    conditions = _conditions(study, "turns", "first_turn", "controller", "variant", "prefix", "models", "benchmarks")
    layers = {
        f"controllers.{item.controller}.layers": list(study.controllers[item.controller].controlled_layers)
        for item in study.conditions.values()
        if item.controller is not None
    }
    return settings.under_controls({**conditions, **missing}) | layers


def training_figure(config: Config, model: str) -> Settings:
    """The figure of a model's training curves."""
    trained = [key for key in config.controllers if model in config.trained(key)]
    return {
        "note": config.note,
        f"models.{model}.label": config.models[model].label,
        "controllers": trained,
        CODE: modules_digest("stair.reporting.figures.training", leave_out=("stair.statistics", *_CONFIGURATION)),
    }


def diagram(config: Config, figure: str) -> Settings:
    """A diagram of STAIR's controllers: labels, and the code that draws it. What it says of a controller is in its inputs."""
    return {
        "note": config.note,
        **{f"models.{model}.label": config.models[model].label for model in diagram_models(config)},
        **chosen("conditions.stair", config.conditions["stair"], "label", "controller"),
        CODE: modules_digest(f"stair.reporting.figures.{figure}", leave_out=("stair.statistics", *_CONFIGURATION)),
    }


def tables(config: Config) -> Settings:
    """Tables: labels, what was run, and the code."""
    return {
        "note": config.note,
        "transitions": config.transitions.model_dump(),
        "overview": config.overview.model_dump(mode="json"),
        **{f"models.{key}.label": model.label for key, model in config.models.items()},
        **{
            f"benchmarks.{key}.{name}": value
            for key, item in config.benchmarks.items()
            for name, value in (("label", item.label), ("mathematical", item.mathematical))
        },
        **_conditions(config, "label", "repeats", "controller", "models", "benchmarks"),
        **{
            place: value
            for place, value in _conditions(config, "family", "seed", "prefix").items()
            if value is not None
        },
        **chosen("evaluation", config.evaluation, "samples", "allow_mixed_engines"),
        CODE: modules_digest("stair.reporting.stage", leave_out=_CONFIGURATION),
    }


def figure(config: Config, figure: str) -> Settings:
    """A figure of scored rows or of a replay: as the tables, and what it shows of the replay's analysis."""
    decisive = tables(config)
    if figure in REPLAY_FIGURES:
        assert config.replay is not None and config.replay.analysis is not None
        decisive |= chosen("replay", config.replay, "models", "benchmark", "layers", "depth")
        decisive |= chosen("replay.analysis", config.replay.analysis, "reported_layer", "neighborhoods")
    return decisive


def table(config: Config, table: str) -> Settings:
    """One table: as all tables, and for the table of decoding settings these settings."""
    if table in shared_t1_tables(config):
        return settings.under_controls(tables(config.shared_t1()))
    decisive = tables(config)
    if table == DECODING_TABLE:
        for model, item in config.models.items():
            decisive |= chosen(f"models.{model}", item, "evaluation_sampling", "evaluation_changes")
    return decisive


def comparison(config: Config) -> Settings:
    """The comparison with the paper: whose models and data these are, what was run, and the code."""
    decisive: Settings = {
        "note": config.note,
        CODE: modules_digest("stair.reporting.comparison.stage", leave_out=_CONFIGURATION),
    }
    for key, model in config.models.items():
        decisive |= chosen(f"models.{key}", model, "label", "repository", "tiny")
    for key, benchmark in config.benchmarks.items():
        decisive |= chosen(f"benchmarks.{key}", benchmark, "label", "tiny", "mathematical")
    decisive |= _conditions(config, "label", "models", "benchmarks")
    decisive |= settings.under_controls(_conditions(config.shared_t1(), "label"))
    return decisive | chosen("evaluation", config.evaluation, "samples")


def claims(config: Config) -> Settings:
    """The paper's claims on a run: as the comparison, and which controllers differ by their seed alone."""
    decisive = comparison(config) | _conditions(config, "controller", "variant", "repeats")
    decisive |= {f"claims.{name}": value for name, value in config.claims.model_dump().items()}
    for key, controller in config.controllers.items():
        decisive |= {f"controllers.{key}.{name}": value for name, value in controller.model_dump(mode="json").items()}
    statements = file_digest(Path(__file__).parents[1] / "reporting/claims/claims.yaml")
    code = [modules_digest("stair.reporting.claims.stage", leave_out=_CONFIGURATION), statements]
    return decisive | {CODE: digest_of(code)}


def report(config: Config) -> Settings:
    """The report page: names of what was run, and the code with its template and style."""
    decisive: Settings = {"run": config.run, "note": config.note}
    for key, model in config.models.items():
        decisive |= chosen(f"models.{key}", model, "label", "repository", "path", "tiny")
    for key, benchmark in config.benchmarks.items():
        decisive |= chosen(f"benchmarks.{key}", benchmark, "label", "repository", "path", "tiny")
    decisive |= _conditions(config, "label") | settings.under_controls(_conditions(config.shared_t1(), "label"))
    folder = Path(__file__).parents[1] / "reporting/report"
    page = [folder / "page.html.jinja", folder / "style.css"]
    code = [modules_digest("stair.reporting.report.stage", leave_out=_CONFIGURATION), *map(file_digest, page)]
    return decisive | chosen("evaluation", config.evaluation, "samples") | {CODE: digest_of(code)}


def provenance(config: Config) -> Settings:
    """The run in one file: the code that sums it up; what it tells of comes as its inputs."""
    return {"run": config.run, CODE: modules_digest("stair.graph.provenance", leave_out=_CONFIGURATION)}
