"""The settings of each rule: a change of any of them makes the rule's outputs stale.

They are exactly the configuration keys that the rule uses, each under its place in the configuration. Settings of generating
rules contain no labels, resources, shard counts or batch widths; repeat conditions contain the latter two. The cheap rules
that only calculate (scores, checks, tables) add a digest of the modules that they import, under `code`, so that they rerun
when their code changes. Generating rules add `protocol_version`, which is raised by hand. A rule's params are the digest of
its settings; a manifest contains the settings themselves.
"""

from __future__ import annotations

from pathlib import Path

from stair.config.datasets import Dataset
from stair.config.engines import EngineName
from stair.config.model import Config
from stair.config.rule_settings import Settings, chosen, source
from stair.graph.code_digest import modules_digest
from stair.graph.table_inputs import DECODING_TABLE, REPLAY_FIGURES, diagram_models, shared_t1_tables
from stair.records.keys import PROTOCOL_VERSION, digest_of, file_digest

CODE = "code"
"""The key of the code's digest; every other key is a place in the configuration, or a version that is raised by hand."""

_CONFIGURATION = ("stair.config",)
"""Left out of digests of code: a rule's settings have the values, and a new key must make no result stale."""

EMBEDDED_VERSION = 3
"""Raised by hand when a change of `stair/tiny` changes a generated problem or what a small backbone learns.

1  the first problems and backbones
2  backbones leave problems unanswered where there is history; smaller operands and factors
3  backbones are rounded to BF16; the tiny run takes those in `backbones/`, which come with the project
"""


def digest(settings: Settings) -> str:
    """A rule's params."""
    return digest_of(settings)


def _model(config: Config, model: str) -> Settings:
    settings, place = config.models[model], f"models.{model}"
    return source(place, settings) | chosen(place, settings, "thinking", "dtype")


def _conditions(config: Config, *keys: str) -> Settings:
    """Some keys of every condition."""
    return {
        place: value
        for key, item in config.conditions.items()
        for place, value in chosen(f"conditions.{key}", item, *keys).items()
    }


def backbone(config: Config, model: str) -> Settings:
    """Training of a small backbone."""
    place, settings = f"models.{model}", config.models[model]
    more = {"prompts": config.prompts, "embedded_version": EMBEDDED_VERSION}
    return source(place, settings) | chosen(place, settings, "thinking") | more


def raw(config: Config, name: str) -> Settings:
    """A generated data set: a benchmark's key, or `training_pool`."""
    if name != "training_pool":
        return {f"benchmarks.{name}.tiny": config.benchmarks[name].tiny, "embedded_version": EMBEDDED_VERSION}
    sizes = {f"benchmarks.{key}.tiny": benchmark.tiny for key, benchmark in config.benchmarks.items()}
    return {"training_pool.tiny": config.training_pool.tiny, **sizes, "embedded_version": EMBEDDED_VERSION}


def benchmark(config: Config, benchmark: str) -> Settings:
    """A benchmark's table."""
    settings, place = config.benchmarks[benchmark], f"benchmarks.{benchmark}"
    keys = ("columns", "exclude_ids", "kind", "rows")
    return source(place, settings) | chosen(place, settings, *keys) | _subset(place, settings)


def training_pool(config: Config, model: str) -> Settings:
    """A model's training problems."""
    keys = ("columns", "strip_prefixes", "strip_suffixes", "validation_problems", "seed")
    pool = config.training_pool
    more = {f"training_pool.exclude_more.{model}": list(pool.exclude_more.get(model, ()))}
    pool_settings = chosen("training_pool", pool, *keys, "exclude_benchmarks") | _subset("training_pool", pool)
    return source("training_pool", pool) | pool_settings | more


def _subset(place: str, settings: Dataset) -> Settings:
    """The subset of a data set, where it has one."""
    return chosen(place, settings, "subset") if settings.subset is not None else {}


def data_report(config: Config) -> Settings:
    """The data report: what is shown of which data set, and the code."""
    sets = [
        ("training_pool", config.training_pool),
        *((f"benchmarks.{k}", item) for k, item in config.benchmarks.items()),
    ]
    settings: Settings = {"note": config.note, CODE: modules_digest("stair.data.report", leave_out=_CONFIGURATION)}
    for place, item in sets:
        settings |= source(place, item) | chosen(place, item, "publish_text", "exclude_ids")
    return settings


def rollouts(config: Config, model: str) -> Settings:
    """A model's training responses."""
    return {
        **_model(config, model),
        **chosen(f"models.{model}", config.models[model], "rollout_sampling"),
        f"prompts.{config.training_pool.prompt}": config.prompts[config.training_pool.prompt],
        **chosen("rollouts", config.rollouts, "samples", "seed"),
        "rollouts.engine": config.rollout_engine(model),
        "training_pool.name": config.training_pool.name,
        "protocol_version": PROTOCOL_VERSION,
        **_engine(config, config.rollout_engine(model)),
        **_lost_rollouts(config, model),
    }


def _lost_rollouts(config: Config, model: str) -> Settings:
    """A model's training responses that the configuration names as missing."""
    lost = sorted([gap.record, gap.sample, gap.reason] for gap in config.rollouts.missing if gap.model == model)
    return {"rollouts.missing": lost} if lost else {}


def _engine(config: Config, engine: EngineName) -> Settings:
    """What of an engine enters response keys."""
    return {f"{engine}.{key}": value for key, value in config.engine_section(engine).decisive.items()}


def preflight(config: Config, model: str) -> Settings:
    """What a model must show. Without the code that looks: whatever generates comes after it."""
    return source(f"models.{model}", config.models[model]) | chosen(f"models.{model}", config.models[model], "thinking")


def data_card(config: Config, model: str) -> Settings:
    """The data card of a model's training responses, and the code that writes it."""
    return {
        **rollouts(config, model),
        f"models.{model}.label": config.models[model].label,
        "training_pool.publish_text": config.training_pool.publish_text,
        **training_pool(config, model),
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


def sessions(config: Config) -> Settings:
    """Any sessions."""
    return {"sessions.seed": config.sessions.seed}


def training(config: Config, model: str, controller: str) -> Settings:
    """A controller on a model."""
    trained = config.controllers[controller]
    unused = {"models"} if trained.reads else {"models", "smoothing"}
    settings = trained.model_dump(mode="json", exclude=unused, exclude_none=True)
    return {
        **_model(config, model),
        **{f"controllers.{controller}.{key}": value for key, value in settings.items()},
        **chosen("training", config.training, *TRAINING_KEYS),
        f"prompts.{config.training_pool.prompt}": config.prompts[config.training_pool.prompt],
        "transformers.attention": config.transformers.attention,
        "protocol_version": PROTOCOL_VERSION,
    }


TRAINING_KEYS = ("sessions_per_update", "epochs", "cross_entropy", "kl", "validation_sessions", "validation_every")
"""Settings of the training that a controller or its curve depends on; the others only say how it is computed."""


def evaluation(config: Config, model: str, benchmark: str, condition: str) -> Settings:
    """The responses of a condition."""
    settings, prompt = config.conditions[condition], config.benchmarks[benchmark].prompt
    # The sampling that comes out, so that saying again what holds already is no change.
    sampling = {
        f"models.{model}.evaluation_sampling.{key}": value
        for key, value in config.models[model].sampling_for(benchmark).model_dump().items()
    }
    decisive = {
        **_model(config, model),
        **sampling,
        f"prompts.{prompt}": config.prompts[prompt],
        **chosen(f"conditions.{condition}", settings, "turns", "first_turn", "controller", "variant"),
        **chosen("evaluation", config.evaluation, "samples", "seed"),
        "evaluation.engine": config.engine_for(model, benchmark),
        "protocol_version": PROTOCOL_VERSION,
        **_engine(config, config.engine_for(model, benchmark)),
    }
    decisive |= {
        f"conditions.{condition}.{key}": value for key, value in (settings.intervention | settings.layout).items()
    }
    for name in (condition, settings.first_turn):
        if name is not None and (lost := config.missing_from(model, benchmark, name)):
            decisive[f"evaluation.missing.{name}"] = [[*place, *gap] for place, gap in sorted(lost.items())]
    if settings.controller is not None:
        controller = config.controllers[settings.controller]
        decisive |= chosen(f"controllers.{settings.controller}", controller, "kind", "layers", "smoothing")
    return decisive


def controls(config: Config, model: str, benchmark: str, condition: str) -> Settings:
    """The responses of a condition of the study with a shared T1 history."""
    return _of_controls(evaluation(config.shared_t1(), model, benchmark, condition))


_CONTROLS = ("conditions.", "evaluation.seed", "evaluation.missing")
"""Beginnings of places that the study's view of a configuration has from `controls`."""


def _of_controls(settings: Settings) -> Settings:
    """Settings of the study's view, under their places in the configuration."""
    return {
        f"controls.{place.removeprefix('evaluation.')}" if place.startswith(_CONTROLS) else place: value
        for place, value in settings.items()
    }


def replay_design(config: Config, model: str) -> Settings:
    """The histories and current problems of a model's replay."""
    replay = config.replay
    assert replay is not None
    keys = (
        "benchmark",
        "condition",
        "seed",
        "depth",
        "batch_problems",
        "history_coverage",
        "problem_coverage",
        "groups",
    )
    prompt = config.benchmarks[replay.benchmark].prompt
    return {
        **source(f"models.{model}", config.models[model]),
        **chosen(f"models.{model}", config.models[model], "thinking"),
        f"prompts.{prompt}": config.prompts[prompt],
        **{f"replay.{key}": value for key, value in replay.model_dump(mode="json", include=set(keys)).items()},
    }


def replay(config: Config, model: str) -> Settings:
    """The measurements of a model's replay."""
    assert config.replay is not None
    return {
        **replay_design(config, model),
        **chosen(f"models.{model}", config.models[model], "dtype"),
        "replay.layers": list(config.replay.layers),
        "transformers.attention": config.transformers.attention,
        "protocol_version": PROTOCOL_VERSION,
    }


_PARTS = {
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
    module, keys = _PARTS[part]
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


def runtime(config: Config, model: str) -> Settings:
    """The runtime measurements of a model."""
    study = config.runtime
    assert study is not None
    sampling = config.models[model].sampling_for(study.benchmark).model_dump()
    own = {
        **chosen(f"models.{model}", config.models[model], "dtype"),
        **{f"runtime.{key}": value for key, value in study.model_dump(mode="json", exclude={"models"}).items()},
        **{f"models.{model}.evaluation_sampling.{key}": value for key, value in sampling.items()},
        **chosen("transformers", config.transformers, "device", "attention", "prefill_chunk", "cache_block"),
        "protocol_version": PROTOCOL_VERSION,
    }
    if study.synthetic is not None:
        return own
    prompt, controller = config.benchmarks[study.benchmark].prompt, config.controllers[study.controller]
    return {
        **own,
        **_model(config, model),
        f"prompts.{prompt}": config.prompts[prompt],
        **chosen(f"controllers.{study.controller}", controller, "kind", "layers", "smoothing"),
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
    return _of_controls({**conditions, **missing}) | layers


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
        return _of_controls(tables(config.shared_t1()))
    decisive = tables(config)
    if table == DECODING_TABLE:
        for model, item in config.models.items():
            decisive |= chosen(f"models.{model}", item, "evaluation_sampling", "evaluation_changes")
    return decisive


def comparison(config: Config) -> Settings:
    """The comparison with the paper: whose models and data these are, what was run, and the code."""
    decisive: Settings = {"note": config.note, CODE: modules_digest(_COMPARISON, leave_out=_CONFIGURATION)}
    for key, model in config.models.items():
        decisive |= chosen(f"models.{key}", model, "label", "repository", "tiny")
    for key, benchmark in config.benchmarks.items():
        decisive |= chosen(f"benchmarks.{key}", benchmark, "label", "tiny", "mathematical")
    decisive |= _conditions(config, "label", "models", "benchmarks")
    decisive |= _of_controls(_conditions(config.shared_t1(), "label"))
    return decisive | chosen("evaluation", config.evaluation, "samples")


def claims(config: Config) -> Settings:
    """The paper's claims on a run: as the comparison, and which controllers differ by their seed alone."""
    decisive = comparison(config) | _conditions(config, "controller", "variant", "repeats")
    decisive |= {f"claims.{name}": value for name, value in config.claims.model_dump().items()}
    for key, controller in config.controllers.items():
        decisive |= {f"controllers.{key}.{name}": value for name, value in controller.model_dump(mode="json").items()}
    statements = file_digest(Path(__file__).parents[1] / "reporting/claims/claims.yaml")
    return decisive | {CODE: digest_of([modules_digest(_CLAIMS, leave_out=_CONFIGURATION), statements])}


def report(config: Config) -> Settings:
    """The report page: names of what was run, and the code with its template and style."""
    decisive: Settings = {"run": config.run, "note": config.note}
    for key, model in config.models.items():
        decisive |= chosen(f"models.{key}", model, "label", "repository", "path", "tiny")
    for key, benchmark in config.benchmarks.items():
        decisive |= chosen(f"benchmarks.{key}", benchmark, "label", "repository", "path", "tiny")
    decisive |= _conditions(config, "label") | _of_controls(_conditions(config.shared_t1(), "label"))
    folder = Path(__file__).parents[1] / "reporting/report"
    page = [folder / "page.html.jinja", folder / "style.css"]
    code = [modules_digest("stair.reporting.report.stage", leave_out=_CONFIGURATION), *map(file_digest, page)]
    return decisive | chosen("evaluation", config.evaluation, "samples") | {CODE: digest_of(code)}


_COMPARISON, _CLAIMS = "stair.reporting.comparison.stage", "stair.reporting.claims.stage"


def provenance(config: Config) -> Settings:
    """The run in one file: the code that sums it up; what it tells of comes as its inputs."""
    return {"run": config.run, CODE: modules_digest("stair.graph.provenance", leave_out=_CONFIGURATION)}
