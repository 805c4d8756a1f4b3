"""The settings of the rules `training_sessions` and `evaluation_sessions`."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings


def sessions(config: Config, **_: str) -> Settings:
    return {"sessions.seed": config.sessions.seed}
