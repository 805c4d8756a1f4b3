"""The settings of the rules that generate a model's training responses and write their data card."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import CONFIGURATION, Settings, chosen, engine_settings, model_settings
from stair.records.code_digest import modules_digest
from stair.records.keys import PROTOCOL_VERSION
from stair.records.manifest import CODE


def rollouts(config: Config, model: str) -> Settings:
    return {
        **model_settings(config, model),
        **chosen(f"models.{model}", config.models[model], "rollout_sampling"),
        f"prompts.{config.training_pool.prompt}": config.prompts[config.training_pool.prompt],
        **chosen("rollouts", config.rollouts, "samples", "seed"),
        "rollouts.engine": config.rollout_engine(model),
        "training_pool.name": config.training_pool.name,
        "protocol_version": PROTOCOL_VERSION,
        **engine_settings(config, config.rollout_engine(model)),
        **_lost_rollouts(config, model),
    }


def _lost_rollouts(config: Config, model: str) -> Settings:
    lost = sorted([gap.record, gap.sample, gap.reason] for gap in config.rollouts.missing if gap.model == model)
    return {"rollouts.missing": lost} if lost else {}


def data_card(config: Config, model: str) -> Settings:
    """The data card of a model's training responses, and the code that writes it; the rule adds the training problems."""
    return {
        **rollouts(config, model),
        f"models.{model}.label": config.models[model].label,
        "training_pool.publish_text": config.training_pool.publish_text,
        **{
            f"benchmarks.{key}.{name}": value
            for key, benchmark in config.benchmarks.items()
            for name, value in (("label", benchmark.label), ("left_out", len(benchmark.exclude_ids)))
        },
        "note": config.note,
        CODE: modules_digest("stair.stages.rollouts.card", leave_out=CONFIGURATION),
    }
