"""The settings of the rule `raw`: generated data sets."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings

EMBEDDED_VERSION = 3
"""Raised by hand when a change of `stair/tiny` changes a generated problem.

1  the first problems
2  smaller operands and factors
3  the same problems; the small backbones came into the project
"""


def raw(config: Config, name: str) -> Settings:
    """A generated data set: a benchmark's key, or `training_pool`."""
    if name != "training_pool":
        return {f"benchmarks.{name}.tiny": config.benchmarks[name].tiny, "embedded_version": EMBEDDED_VERSION}
    generated = {key: item.tiny for key, item in config.benchmarks.items() if item.tiny is not None}
    sizes = {f"benchmarks.{key}.tiny": size for key, size in generated.items()}
    return {"training_pool.tiny": config.training_pool.tiny, **sizes, "embedded_version": EMBEDDED_VERSION}
