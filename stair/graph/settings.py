"""The settings of each rule that generates or prepares: a change of any of them makes the rule's outputs stale.

They are exactly the configuration keys that the rule uses, each under its place in the configuration. They contain no labels,
resources, shard counts or batch widths (repeat conditions contain the latter two), and no digest of code: `protocol_version`
and `embedded_version` are raised by hand. `result_settings` has the rules that only calculate. A rule's params are the digest
of its settings; a manifest contains the settings themselves.
"""

from __future__ import annotations

from stair.config.datasets import Dataset
from stair.config.engines import EngineName
from stair.config.model import Config
from stair.config.rule_settings import Settings, chosen, source
from stair.records.keys import PROTOCOL_VERSION, digest_of

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


def sessions(config: Config) -> Settings:
    """Any sessions."""
    return {"sessions.seed": config.sessions.seed}


TRAINING_KEYS = ("sessions_per_update", "epochs", "cross_entropy", "kl", "validation_sessions", "validation_every")
"""Settings of the training that a controller or its curve depends on; the others only say how it is computed."""


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


_FROM_CONTROLS = ("conditions.", "evaluation.seed", "evaluation.missing")
"""Beginnings of places that the study's view of a configuration has from `controls`."""


def controls(config: Config, model: str, benchmark: str, condition: str) -> Settings:
    """The responses of a condition of the study with a shared T1 history."""
    return under_controls(evaluation(config.shared_t1(), model, benchmark, condition))


def under_controls(settings: Settings) -> Settings:
    """Settings of the study's view, under their places in the configuration."""
    return {
        f"controls.{place.removeprefix('evaluation.')}" if place.startswith(_FROM_CONTROLS) else place: value
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
