"""Shards of durable work. A job resumes the work of earlier jobs and writes a completion marker.

Results are records of a log (`stair.records.worklog`) or files of tensors (`stair.records.tensor_files`). Both outlive their
job and do not depend on the number of shards, which may change between two starts. Nothing keeps two processes from one
shard: they write files of their own or equal ones, so they lose time, and no work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from stair.records.files import read_mapping, write_json
from stair.records.keys import digest_of
from stair.records.manifest import GENERATED, GENERATED_ON, GENERATING_SECONDS, hardware

T = TypeVar("T")

_HARDWARE, _SECONDS, _GENERATED = "hardware", "seconds", "generated"
"""Keys of a completion marker: the machine, the seconds of the shard's last attempt, and the pieces that it made in them."""

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


def write_marker(folder: Path, shard: Shard, *, start: float, generated: int, **facts: Any) -> None:
    """Writes the completion marker of a shard (`RunPaths.shard`), with this machine and facts of the work.

    Args:
        start: the attempt's start, as `time.monotonic` had it.
        generated: the pieces of work that the attempt made.
    """
    cost = {_HARDWARE: hardware(), _SECONDS: round(time.monotonic() - start, 1), _GENERATED: generated}
    marker = {"shard": shard.number, "of": shard.of, **cost, **facts}
    write_json(folder / f"{shard.name}.json", marker)


def generating_facts(folder: Path) -> dict[str, Any]:
    """Facts for the seal's manifest from the completion markers of a work folder: the distinct machines, and two sums.

    An attempt that was cut short has no marker, so its seconds and pieces are not counted. Both sums leave out the same
    attempts, so their ratio is a speed.
    """
    machines: dict[str, dict[str, Any]] = {}
    seconds, generated = 0.0, 0
    for marker in sorted(folder.glob("shard-*-of-*.json")):
        # A marker counts by its name; its content is for people.
        with suppress(OSError, ValueError, KeyError, TypeError):
            facts = read_mapping(marker)
            machines[digest_of(facts[_HARDWARE])] = facts[_HARDWARE]
            seconds, generated = seconds + facts[_SECONDS], generated + facts[_GENERATED]
    return {GENERATED_ON: [*machines.values()], GENERATING_SECONDS: round(seconds, 1), GENERATED: generated}


def remove_markers(folder: Path) -> None:
    """Removes the markers of shards after a loss: the next start runs the shards again and reuses the kept work."""
    for marker in folder.glob("shard-*-of-*.json"):
        marker.unlink(missing_ok=True)
