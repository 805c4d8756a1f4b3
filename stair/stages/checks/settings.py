"""The settings of the rule `check`: its own keys and code, because an unpacked archive lacks what it checks."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, conditions, under_controls
from stair.records.manifest import CODE, source_digest


def checks(config: Config) -> Settings:
    pool = config.training_pool.model_dump(mode="json", include={"exclude_benchmarks", "exclude_more"})
    return {
        **{f"models.{key}.thinking": model.thinking for key, model in config.models.items()},
        "benchmarks": list(config.benchmarks),
        **conditions(config, "turns", "first_turn", "controller", "variant", "models", "benchmarks"),
        **{f"conditions.{key}.reads_bank": config.reads_bank(key) for key in config.conditions},
        **_checked_controls(config.shared_t1()),
        **{f"training_pool.{key}": value for key, value in pool.items()},
        **chosen("evaluation", config.evaluation, "samples", "allow_mixed_engines"),
        **(chosen("evaluation", config.evaluation, "missing") if config.evaluation.missing else {}),
        CODE: source_digest("stair.stages.checks", "stair.sessions"),
    }


def _checked_controls(study: Config) -> Settings:
    if not study.conditions:
        return {}
    missing = chosen("evaluation", study.evaluation, "missing") if study.evaluation.missing else {}
    checked = conditions(study, "turns", "first_turn", "controller", "variant", "prefix", "models", "benchmarks")
    layers = {
        f"controllers.{item.controller}.layers": list(study.controllers[item.controller].controlled_layers)
        for item in study.conditions.values()
        if item.controller is not None
    }
    return under_controls({**checked, **missing}) | layers
