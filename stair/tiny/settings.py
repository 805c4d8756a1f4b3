"""The settings of the rules `raw` and `backbone`: generated data sets and small backbones."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, source

EMBEDDED_VERSION = 3
"""Raised by hand when a change of `stair/tiny` changes a generated problem or what a small backbone learns.

1  the first problems and backbones
2  backbones leave problems unanswered where there is history; smaller operands and factors
3  backbones are rounded to BF16; the tiny run takes those in `backbones/`, which come with the project
"""


def raw(config: Config, name: str) -> Settings:
    """A generated data set: a benchmark's key, or `training_pool`."""
    if name != "training_pool":
        return {f"benchmarks.{name}.tiny": config.benchmarks[name].tiny, "embedded_version": EMBEDDED_VERSION}
    generated = {key: item.tiny for key, item in config.benchmarks.items() if item.tiny is not None}
    sizes = {f"benchmarks.{key}.tiny": size for key, size in generated.items()}
    return {"training_pool.tiny": config.training_pool.tiny, **sizes, "embedded_version": EMBEDDED_VERSION}


def backbone(config: Config, model: str) -> Settings:
    """Training of a small backbone."""
    place, settings = f"models.{model}", config.models[model]
    more = {"prompts": config.prompts, "embedded_version": EMBEDDED_VERSION}
    return source(place, settings) | chosen(place, settings, "thinking") | more
