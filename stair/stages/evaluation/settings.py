"""The settings of the rules that generate and score responses, and write their data card."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import CONFIGURATION, Settings, chosen, engine_settings, model_settings, under_controls
from stair.records.code_digest import modules_digest
from stair.records.keys import PROTOCOL_VERSION
from stair.records.manifest import CODE


def evaluation(config: Config, model: str, benchmark: str, condition: str) -> Settings:
    settings, prompt = config.conditions[condition], config.benchmarks[benchmark].prompt
    # The sampling that comes out, so that saying again what holds already is no change.
    sampling = {
        f"models.{model}.evaluation_sampling.{key}": value
        for key, value in config.models[model].sampling_for(benchmark).model_dump().items()
    }
    decisive = {
        **model_settings(config, model),
        **sampling,
        f"prompts.{prompt}": config.prompts[prompt],
        **chosen(f"conditions.{condition}", settings, "turns", "first_turn", "controller", "variant"),
        **chosen("evaluation", config.evaluation, "samples", "seed"),
        "evaluation.engine": config.engine_for(model, benchmark),
        "protocol_version": PROTOCOL_VERSION,
        **engine_settings(config, config.engine_for(model, benchmark)),
    }
    decisive |= {
        f"conditions.{condition}.{key}": value for key, value in (settings.intervention | settings.layout).items()
    }
    for name in (condition, settings.first_turn):
        if name is not None and (lost := config.missing_from(model, benchmark, name)):
            decisive[f"evaluation.missing.{name}"] = [[*place, *gap] for place, gap in sorted(lost.items())]
    if settings.controller is not None:
        controller = config.controllers[settings.controller]
        keys = ("kind", "layers", *(("smoothing",) if controller.reads else ()))
        decisive |= chosen(f"controllers.{settings.controller}", controller, *keys)
    return decisive


def controls(config: Config, model: str, benchmark: str, condition: str) -> Settings:
    return under_controls(evaluation(config.shared_t1(), model, benchmark, condition))


def scores(config: Config, benchmark: str) -> Settings:
    """The code that gives verdicts, and what it depends on."""
    # Nothing imports the worker: it is started as a program.
    code = modules_digest("stair.stages.evaluation.scores", "answer_grader.worker")
    return {f"benchmarks.{benchmark}.kind": config.benchmarks[benchmark].kind, CODE: code}


def response_card(config: Config, model: str) -> Settings:
    """The described responses, and the code of the card."""
    answered = {
        condition: [benchmark for key, benchmark in config.evaluated(condition) if key == model]
        for condition in config.conditions
    }
    return {
        f"models.{model}.label": config.models[model].label,
        **{f"conditions.{key}.benchmarks": benchmarks for key, benchmarks in answered.items() if benchmarks},
        "note": config.note,
        CODE: modules_digest("stair.stages.evaluation.card", leave_out=CONFIGURATION),
    }
