"""The settings of the rules that generate a model's training responses."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, engine_settings, model_settings
from stair.records.keys import PROTOCOL_VERSION


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
    }
