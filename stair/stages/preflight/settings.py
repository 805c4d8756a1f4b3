"""The settings of a model's preflight."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, source


def preflight(config: Config, model: str) -> Settings:
    """Without the code: all generation depends on this rule."""
    return source(f"models.{model}", config.models[model]) | chosen(f"models.{model}", config.models[model], "thinking")
