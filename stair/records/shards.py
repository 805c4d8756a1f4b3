"""Shards of durable work. A job resumes the work of earlier jobs and writes a completion marker.

Results are records of a log (`stair.records.worklog`) or files of tensors (`stair.records.tensor_files`). Both outlive their
job and do not depend on the number of shards, which may change between two starts. Nothing keeps two processes from one
shard: they write files of their own or equal ones, so they lose time, and no work.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from stair.records.files import read_mapping, write_json
from stair.records.keys import digest_of
from stair.records.manifest import hardware

T = TypeVar("T")

_HARDWARE = "hardware"

SEAL_AGAIN = "run the same command again (by hand: run the stage's shards again)"
"""The remedy of a seal that has removed markers."""


class Shard(NamedTuple):
    """One of `of` shards, by its number from 0."""

    number: int
    of: int

    @property
    def name(self) -> str:
        """The name of its marker and log."""
        return f"shard-{self.number}-of-{self.of}"

    def share(self, items: Sequence[T]) -> list[T]:
        """Its items: every `of`-th, so that shards are equally long. Raises ValueError without such a shard."""
        if not 0 <= self.number < self.of:
            raise ValueError(f"shard {self.number} does not exist among {self.of} (they are numbered from 0)")
        return list(items[self.number :: self.of])


def write_marker(folder: Path, shard: Shard, **facts: Any) -> None:
    """Writes the completion marker of a shard (`RunPaths.shard`), with this machine and facts of the work."""
    marker = {"shard": shard.number, "of": shard.of, _HARDWARE: hardware(), **facts}
    write_json(folder / f"{shard.name}.json", marker)


def generated_on(folder: Path) -> list[dict[str, Any]]:
    """The distinct machines in the completion markers of a work folder."""
    machines: dict[str, dict[str, Any]] = {}
    for marker in sorted(folder.glob("shard-*-of-*.json")):
        with suppress(OSError, ValueError, KeyError):  # a marker counts by its name; its content is for people
            machine = read_mapping(marker)[_HARDWARE]
            machines[digest_of(machine)] = machine
    return [*machines.values()]


def remove_markers(folder: Path) -> None:
    """Removes the markers of shards after a loss: the next start runs the shards again and reuses the kept work."""
    for marker in folder.glob("shard-*-of-*.json"):
        marker.unlink(missing_ok=True)
