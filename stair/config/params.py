"""What each rule depends on: a digest of exactly the configuration keys that it uses.

Labels, resources, shard counts and batch widths are in none of the digests of rules that generate. The cheap rules that
only calculate (scores, tables) add a digest of the modules that they import, so that they rerun when their code changes.
"""

from __future__ import annotations

from typing import Any

from stair.config.model import Config, Dataset, Model
from stair.config.sources import modules_digest
from stair.records.keys import digest_of


def _source(item: Model | Dataset) -> dict[str, Any]:
    return item.model_dump(mode="json", include={"repository", "revision", "file", "path", "tiny"})


def _model(config: Config, model: str) -> dict[str, Any]:
    settings = config.models[model]
    return {"source": _source(settings), "thinking": settings.thinking, "dtype": settings.dtype}


def backbone(config: Config, model: str) -> str:
    """Training of a small backbone."""
    settings = config.models[model]
    return digest_of({"source": _source(settings), "thinking": settings.thinking, "prompts": config.prompts})


def raw(config: Config, name: str) -> str:
    """A generated data set: a benchmark's key, or `training_pool`."""
    return digest_of(
        {
            "name": name,
            "tiny": _dataset(config, name).tiny,
            "benchmarks": _sizes(config) if name == "training_pool" else None,
        }
    )


def _dataset(config: Config, name: str) -> Dataset:
    return config.training_pool if name == "training_pool" else config.benchmarks[name]


def _sizes(config: Config) -> dict[str, int | None]:
    return {key: benchmark.tiny for key, benchmark in config.benchmarks.items()}


def benchmark(config: Config, benchmark: str) -> str:
    """A benchmark's table."""
    return digest_of(config.benchmarks[benchmark].model_dump(mode="json", exclude={"label", "prompt", "mathematical"}))


def training_pool(config: Config, model: str) -> str:
    """A model's training problems."""
    pool = config.training_pool.model_dump(mode="json", exclude={"name", "prompt", "exclude_more"})
    return digest_of({"pool": pool, "more": config.training_pool.exclude_more.get(model, ())})


def rollouts(config: Config, model: str) -> str:
    """A model's training responses."""
    return digest_of(
        {
            "model": _model(config, model),
            "sampling": config.models[model].rollout_sampling.model_dump(),
            "prompt": config.prompts[config.training_pool.prompt],
            "samples": config.rollouts.samples,
            "seed": [config.rollouts.seed, config.training_pool.name],
            "engine": config.rollouts.engine,
            "attention": config.transformers.attention,
        }
    )


def sessions(config: Config) -> str:
    """Any sessions."""
    return digest_of({"seed": config.sessions.seed})


def training(config: Config, model: str, controller: str) -> str:
    """A controller on a model."""
    return digest_of(
        {
            "model": _model(config, model),
            "controller": config.controllers[controller].model_dump(mode="json", exclude={"models"}),
            "training": config.training.model_dump(mode="json"),
            "prompt": config.prompts[config.training_pool.prompt],
            "attention": config.transformers.attention,
        }
    )


def evaluation(config: Config, model: str, benchmark: str, condition: str) -> str:
    """The responses of a condition."""
    settings = config.conditions[condition]
    controller = config.controllers[settings.controller] if settings.controller else None
    return digest_of(
        {
            "model": _model(config, model),
            "sampling": config.models[model].sampling_for(benchmark).model_dump(),
            "prompt": config.prompts[config.benchmarks[benchmark].prompt],
            "condition": settings.model_dump(mode="json", exclude={"label", "models", "benchmarks"}),
            "controller": controller.model_dump(mode="json", include={"kind", "layers", "smoothing"})
            if controller
            else None,
            "samples": config.evaluation.samples,
            "seed": config.evaluation.seed,
            "engine": config.evaluation.engine,
            "attention": config.transformers.attention,
        }
    )


def scores(config: Config, benchmark: str) -> str:
    """Verdicts on one benchmark's responses, and the code that gives them."""
    # Nothing imports the worker: it is started as a program.
    code = modules_digest("stair.evaluation.scores", "stair.scoring.worker")
    return digest_of({"kind": config.benchmarks[benchmark].kind, "code": code})


def checks(config: Config) -> str:
    """The invariants, and the code that checks them."""
    conditions = {key: item.model_dump(mode="json", exclude={"label"}) for key, item in config.conditions.items()}
    return digest_of(
        {"conditions": conditions, "samples": config.evaluation.samples, "code": modules_digest("stair.checks.stage")}
    )


def tables(config: Config) -> str:
    """Tables: labels, what was run, and the code."""
    layout = {
        "note": config.note,
        "transitions": config.transitions.model_dump(),
        "overview": config.overview.model_dump(mode="json"),
        "models": {key: model.label for key, model in config.models.items()},
        "benchmarks": {key: (item.label, item.mathematical) for key, item in config.benchmarks.items()},
        "conditions": {key: item.model_dump(mode="json") for key, item in config.conditions.items()},
        "samples": config.evaluation.samples,
    }
    return digest_of({"layout": layout, "code": modules_digest("stair.artifacts.stage")})
