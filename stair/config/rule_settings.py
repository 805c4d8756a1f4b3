"""Values by their place in the configuration (`evaluation.seed`): what settings are made of."""

from __future__ import annotations

from typing import Any

from stair.config.backbones import Model
from stair.config.datasets import Dataset

Settings = dict[str, Any]
"""Values by their place."""


def chosen(place: str, item: Any, *keys: str) -> Settings:
    """Some keys of an item, or all, under their places."""
    values = item.model_dump(mode="json", include=set(keys) or None)
    return {f"{place}.{key}": value for key, value in values.items()}


def source(place: str, item: Model | Dataset) -> Settings:
    """Where a model or data set comes from."""
    return chosen(place, item, "repository", "revision", "file", "path", "tiny")
