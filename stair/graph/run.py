"""The run that the graph describes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths


@dataclass(frozen=True, eq=False)
class Run:
    """A resolved configuration and its files."""

    config: Config
    paths: RunPaths
    everything: bool = False
    """Whether training data counts that no job needs, because its controllers were restored from an archive."""
    known: dict[tuple[str, ...], bool] = field(default_factory=dict, init=False, repr=False)
    """Which jobs' outputs are restored, for those that were asked about."""

    @cached_property
    def archive(self) -> Run | None:
        """What `stair restore` put below `restored/`, laid out as this run; None where there is nothing."""
        folder = self.paths.restored
        return Run(self.config, RunPaths(folder)) if folder.is_dir() else None


def manifest_beside(file: Path) -> Path:
    """The manifest of one file."""
    return file.with_name(f"{file.name}.manifest.json")
