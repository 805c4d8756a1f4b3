"""A run: its resolved configuration and its files, and what both together decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from stair.config.model import Config
from stair.config.paths import RunPaths, shared_t1
from stair.config.replay import Replay
from stair.config.runtime import Runtime
from stair.pipeline.model_shape import Shape, shape_of


@dataclass(frozen=True, eq=False)
class Run:
    """A resolved configuration and its files."""

    config: Config
    paths: RunPaths
    _shapes: dict[str, Shape] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def shared_t1(self) -> Run:
        return Run(*shared_t1(self.config, self.paths))

    @property
    def replay(self) -> Replay:
        assert self.config.replay is not None, "the run has no replay"
        return self.config.replay

    @property
    def runtime(self) -> Runtime:
        assert self.config.runtime is not None, "the run has no runtime study"
        return self.config.runtime

    def shape(self, model: str) -> Shape:
        if model not in self._shapes:
            self._shapes[model] = shape_of(self.config, self.paths, model)
        return self._shapes[model]
