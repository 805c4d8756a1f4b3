"""A computing site: the partitions of its Slurm cluster, from the file site.yaml."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from stair.config.field_types import Natural, Positive, Strict, Text, Texts
from stair.config.paths import anchored
from stair.config.resolve import ConfigError, explained, read_yaml

SITE = "site.yaml"
_RESOLUTION_SECONDS = 60
"""How much earlier than asked Slurm may warn a job."""


class Partition(Strict):
    """The largest job that a partition accepts."""

    minutes: Positive
    mem_mb: int = Field(ge=1, le=10**9)
    gpus: Natural = 0
    gpu_model: Text | None = None


class Site(Strict):
    """What a cluster offers."""

    account: Text | None = None
    signal_seconds: Positive = 300
    partitions: dict[str, Partition] = Field(min_length=1)
    snakemake: Texts = ()

    @model_validator(mode="after")
    def _jobs_can_work(self) -> Site:
        for name, limit in self.partitions.items():
            if limit.minutes * 60 <= self.signal_seconds + _RESOLUTION_SECONDS:
                raise ValueError(
                    f"partitions.{name}.minutes is {limit.minutes}, so jobs are warned at their start: raise it, or "
                    f"lower signal_seconds (Slurm warns up to {_RESOLUTION_SECONDS} s early)"
                )
        return self

    def partition_for(self, gpus: int, mem_mb: int, minutes: int) -> str | None:
        """The first partition that accepts a job; None without one. A job without GPUs avoids GPU partitions, if it can."""
        fitting = [
            name
            for name, limit in self.partitions.items()
            if limit.gpus >= gpus and limit.mem_mb >= mem_mb and limit.minutes >= minutes
        ]
        return next((name for name in fitting if gpus or not self.partitions[name].gpus), next(iter(fitting), None))

    def longest(self, gpus: int, mem_mb: int) -> int | None:
        """The longest time limit of the partitions that have these GPUs and this memory, in minutes; None without one."""
        limits = [p.minutes for p in self.partitions.values() if p.gpus >= gpus and p.mem_mb >= mem_mb]
        return max(limits, default=None)


def site_file(project: Path) -> Path:
    """The site's file: in the folder in which the run was started, else in the project's."""
    return next((folder / SITE for folder in (anchored(""), project) if (folder / SITE).is_file()), Path(SITE))


def read_site(project: Path) -> Site:
    """Raises ConfigError without a file, or with every wrong key in one line."""
    path = site_file(project)
    if not path.is_file():
        raise ConfigError(f"{SITE} does not exist: copy site.example.yaml to {SITE} and name your cluster's partitions")
    try:
        return Site.model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: {explained(error, Site)}") from None
