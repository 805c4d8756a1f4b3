"""The settings of the rules `benchmark` and `training_pool`."""

from __future__ import annotations

from stair.config.datasets import Dataset
from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, source


def benchmark(config: Config, benchmark: str) -> Settings:
    settings, place = config.benchmarks[benchmark], f"benchmarks.{benchmark}"
    keys = ("columns", "exclude_ids", "kind", "rows")
    return source(place, settings) | chosen(place, settings, *keys) | _subset(place, settings)


def training_pool(config: Config, model: str) -> Settings:
    keys = ("columns", "strip_prefixes", "strip_suffixes", "validation_problems", "seed")
    pool = config.training_pool
    more = {f"training_pool.exclude_more.{model}": list(pool.exclude_more.get(model, ()))}
    pool_settings = chosen("training_pool", pool, *keys, "exclude_benchmarks") | _subset("training_pool", pool)
    return source("training_pool", pool) | pool_settings | more


def _subset(place: str, settings: Dataset) -> Settings:
    return chosen(place, settings, "subset") if settings.subset is not None else {}
