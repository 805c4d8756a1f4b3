"""Shards of durable work. A job leases a shard, resumes the work of earlier jobs, and writes a completion marker.

Results are records of a log (`stair.records.worklog`) or files of tensors (`stair.records.tensor_files`). Both outlive their
job and do not depend on the number of shards, which may change between two starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from stair.records.files import read_mapping, write_json
from stair.records.keys import digest_of
from stair.records.leases import Lease
from stair.records.manifest import hardware

T = TypeVar("T")

WITHDRAWN = ".withdrawn"
"""The suffix of a withdrawn marker: some work of its shard has been lost."""

_HARDWARE = "hardware"

SEAL_AGAIN = "run the same command again (by hand: run the stage's shards again)"
"""The remedy of a seal that has withdrawn markers. `stair reproduce` starts Snakemake again by itself."""


class Shard(NamedTuple):
    """One of `of` shards, by its number from 0."""

    number: int
    of: int

    @property
    def name(self) -> str:
        """The name of its lease, marker and log."""
        return f"shard-{self.number}-of-{self.of}"

    def share(self, items: Sequence[T]) -> list[T]:
        """Its items: every `of`-th, so that shards are equally long. Raises ValueError without such a shard."""
        if not 0 <= self.number < self.of:
            raise ValueError(f"shard {self.number} does not exist among {self.of} (they are numbered from 0)")
        return list(items[self.number :: self.of])

    def overlaps(self, work: str) -> bool:
        """Whether other work of the folder, by its lease, overlaps this shard; work that is no shard does."""
        match = re.fullmatch(r"shard-(\d+)-of-(\d+)", work)
        if match is None:
            return True
        number, of = int(match[1]), int(match[2])
        return (number - self.number) % math.gcd(of, self.of) == 0


class ShardWork:
    """A leased shard, within the context: no other job works on it.

    Args:
        folder: the work folder, which all shards share.

    Raises:
        HeldError: on entering, if another process works on a part of the shard.
    """

    def __init__(self, folder: Path, shard: Shard) -> None:
        self.folder, self.shard = folder, shard
        self._lease = Lease(folder, shard.name, shard.overlaps)

    def __enter__(self) -> ShardWork:
        self._lease.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lease.__exit__(kind, error, trace)

    def check(self) -> None:
        """Raises HeldError if another process has replaced the lease because this one seemed dead."""
        self._lease.check()

    def end(self, **facts: Any) -> None:
        """Writes the completion marker of the shard (`RunPaths.shard`), with this machine and facts of the work."""
        marker = self.folder / f"{self.shard.name}.json"
        marker.with_suffix(WITHDRAWN).unlink(missing_ok=True)
        write_json(marker, {"shard": self.shard.number, "of": self.shard.of, _HARDWARE: hardware(), **facts})


def generated_on(folder: Path) -> list[dict[str, Any]]:
    """The distinct machines in the completion markers of a work folder."""
    machines: dict[str, dict[str, Any]] = {}
    for marker in sorted(folder.glob("shard-*-of-*.json")):
        with suppress(OSError, ValueError, KeyError):  # a marker counts by its name; its content is for people
            machine = read_mapping(marker)[_HARDWARE]
            machines[digest_of(machine)] = machine
    return [*machines.values()]


def withdraw_markers(folder: Path) -> None:
    """Withdraws the markers of shards after a loss: the next start runs the shards again and reuses the kept work."""
    for marker in folder.glob("shard-*-of-*.json"):
        marker.rename(marker.with_suffix(WITHDRAWN))
