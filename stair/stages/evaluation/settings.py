"""The settings of the rules that generate and score responses."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, engine_settings, model_settings
from stair.core import SECTIONS, study_of
from stair.records.keys import PROTOCOL_VERSION
from stair.records.manifest import CODE, source_digest


def evaluation(config: Config, model: str, benchmark: str, condition: str) -> Settings:
    settings, place, prompt = (
        config.condition(condition),
        config.place_of(condition),
        config.benchmarks[benchmark].prompt,
    )
    section = SECTIONS[study_of(condition)[0]]
    # The sampling that comes out, so that saying again what holds already is no change.
    sampling = {
        f"models.{model}.evaluation_sampling.{key}": value
        for key, value in config.models[model].sampling_for(benchmark).model_dump().items()
    }
    decisive = {
        **model_settings(config, model),
        **sampling,
        f"prompts.{prompt}": config.prompts[prompt],
        **chosen(place, settings, "turns", "first_turn", "controller", "variant"),
        "evaluation.samples": config.evaluation.samples,
        f"{section}.seed": config.section_of(condition).seed,
        "evaluation.engine": config.engine_for(model, benchmark),
        "protocol_version": PROTOCOL_VERSION,
        **engine_settings(config, config.engine_for(model, benchmark)),
    }
    decisive |= {f"{place}.{key}": value for key, value in (settings.intervention | settings.layout).items()}
    if settings.controller is not None:
        controller = config.controllers[settings.controller]
        keys = ("kind", "layers", *(("smoothing",) if controller.reads else ()))
        decisive |= chosen(f"controllers.{settings.controller}", controller, *keys)
    return decisive


def scores(config: Config, model: str, benchmark: str, condition: str) -> Settings:
    """How answers are compared, and the code that gives verdicts."""
    code = source_digest("stair.stages.evaluation.scores", "stair.sessions.positions", "answer_grader")
    return {f"benchmarks.{benchmark}.kind": config.benchmarks[benchmark].kind, CODE: code}
