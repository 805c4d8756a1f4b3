"""Parts of rules' settings: values by their place in the configuration (`evaluation.seed`).

A rule's settings are exactly the configuration keys that it uses. They contain no labels, resources, shard counts or batch
widths (repeat conditions contain the latter two). A generating rule has no digest of code: `protocol_version` and
`embedded_version` are raised by hand. A job of seconds on a CPU takes the whole configuration and the whole code
(`stair.pipeline.jobs.shown`). A rule's params are the digest of its settings; a manifest contains the settings.
"""

from __future__ import annotations

from typing import Any

from stair.config.backbones import Model
from stair.config.datasets import Dataset
from stair.config.engines import EngineName
from stair.config.model import Config

Settings = dict[str, Any]
"""Values by their place."""


def chosen(place: str, item: Any, *keys: str) -> Settings:
    """Some keys of an item, or all, under their places."""
    values = item.model_dump(mode="json", include=set(keys) or None)
    return {f"{place}.{key}": value for key, value in values.items()}


def source(place: str, item: Model | Dataset) -> Settings:
    """Where a model or data set comes from."""
    return chosen(place, item, "repository", "revision", "file", "path", "tiny")


def model_settings(config: Config, model: str) -> Settings:
    """What of a model enters its responses."""
    settings, place = config.models[model], f"models.{model}"
    return source(place, settings) | chosen(place, settings, "thinking", "dtype")


def engine_settings(config: Config, engine: EngineName) -> Settings:
    """What of an engine enters response keys."""
    return {f"{engine}.{key}": value for key, value in config.engine_section(engine).decisive.items()}
