"""The run that the graph describes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths, shared_t1
from stair.config.replay import Replay
from stair.config.runtime import Runtime
from stair.graph.model_shape import Shape, shape_of

Job = tuple[str, ...]
"""A job's name: its model, benchmark and condition, or what else distinguishes the jobs of one output."""


@dataclass(frozen=True, eq=False)
class Run:
    """A resolved configuration and its files."""

    config: Config
    paths: RunPaths
    include_unneeded: bool = False
    """Whether to include training data that no job needs because the controllers were restored from an archive."""
    restored_jobs: dict[tuple[str, ...], bool] = field(default_factory=dict, init=False, repr=False)
    """Cache of `NeededJobs.is_restored`, by output and job."""
    digests: dict[tuple[str, ...], str | None] = field(default_factory=dict, init=False, repr=False)
    """Cache of the digests of jobs' settings, by output and job; None for a job that the configuration does not have."""
    _shapes: dict[str, Shape] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def archive(self) -> Run | None:
        """The outputs below `restored/`, where `stair restore` writes them, laid out as this run; None without that folder."""
        folder = self.paths.restored
        return Run(self.config, RunPaths(folder)) if folder.is_dir() else None

    @cached_property
    def shared_t1(self) -> Run:
        """The run as the study with a shared T1 history sees it."""
        return Run(*shared_t1(self.config, self.paths))

    @property
    def evaluated(self) -> list[Job]:
        """Every (model, benchmark, condition) of the evaluation, one condition after the other."""
        return [(*pair, condition) for condition in self.config.conditions for pair in self.config.evaluated(condition)]

    @property
    def replay(self) -> Replay:
        """The settings of the replay, in a run that has one."""
        assert self.config.replay is not None, "the run has no replay"
        return self.config.replay

    @property
    def runtime(self) -> Runtime:
        """The settings of the runtime study, in a run that has one."""
        assert self.config.runtime is not None, "the run has no runtime study"
        return self.config.runtime

    def shape(self, model: str) -> Shape:
        """A model's shape, read once."""
        if model not in self._shapes:
            self._shapes[model] = shape_of(self.config, self.paths, model)
        return self._shapes[model]


def manifest_beside(file: Path) -> Path:
    """The manifest of one file."""
    return file.with_name(f"{file.name}.manifest.json")
