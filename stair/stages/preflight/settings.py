"""The settings of a model's preflight; those of its prompts' limits are `preflight_record.prompts_settings`."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, source
from stair.sessions.preflight_record import prompts_settings

limits = prompts_settings


def preflight(config: Config, model: str) -> Settings:
    """The required properties, without the code: all generation depends on this rule."""
    return source(f"models.{model}", config.models[model]) | chosen(f"models.{model}", config.models[model], "thinking")
