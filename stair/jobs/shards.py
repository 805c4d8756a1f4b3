"""Durable work shared out among jobs. A shard is claimed, goes on where an earlier job stopped, and leaves a marker at its end.

What is kept of the work, and how, is its owner's: records of a log (`stair.records.worklog`) or files of tensors
(`stair.jobs.tensor_files`). Both outlive their job, and neither depends on how many shards there are: the number may change
between two starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from stair.jobs.claims import Claim
from stair.records.files import write_json

T = TypeVar("T")

WITHDRAWN = ".withdrawn"
"""The ending of a marker that no longer counts, because some of its shard's work has been lost."""


class Shard(NamedTuple):
    """One of `of` shards, by its number from 0."""

    number: int
    of: int

    @property
    def name(self) -> str:
        """Names its claim, its marker and its log."""
        return f"shard-{self.number}-of-{self.of}"

    def share(self, items: Sequence[T]) -> list[T]:
        """Its items: every `of`-th, so that shards are equally long.

        Raises:
            ValueError: there is no such shard.
        """
        if not 0 <= self.number < self.of:
            raise ValueError(f"shard {self.number} does not exist among {self.of} (they are numbered from 0)")
        return list(items[self.number :: self.of])

    def overlaps(self, work: str) -> bool:
        """Whether other work on the folder, by its claim, does some of this shard's; any but a shard may."""
        match = re.fullmatch(r"shard-(\d+)-of-(\d+)", work)
        if match is None:
            return True
        number, of = int(match[1]), int(match[2])
        return (number - self.number) % math.gcd(of, self.of) == 0


class ShardWork:
    """A shard at work, within the context: no other job does any of the same.

    Args:
        folder: the work folder, which all shards share.
        shard: this one.
        marker: written by `end`.

    Raises:
        ClaimedError: on entering, when another process does some of the same.
    """

    def __init__(self, folder: Path, shard: Shard, marker: Path) -> None:
        self.folder, self.shard, self._marker = folder, shard, marker
        self._claim = Claim(folder, shard.name, shard.overlaps)

    def __enter__(self) -> ShardWork:
        self._claim.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._claim.__exit__(kind, error, trace)

    def check(self) -> None:
        """Raises ClaimedError when another process has taken this one for dead and goes on in its place."""
        self._claim.check()

    def end(self, **facts: Any) -> None:
        """Writes the marker, with facts of the work: nothing of the shard is left to do."""
        self._marker.with_suffix(WITHDRAWN).unlink(missing_ok=True)
        write_json(self._marker, {"shard": self.shard.number, "of": self.shard.of, **facts})


def withdraw_markers(folder: Path) -> None:
    """Says that work of ended shards has been lost: the workflow's next start runs them again, and what is kept stays kept."""
    for marker in folder.glob("shard-*-of-*.json"):
        marker.rename(marker.with_suffix(WITHDRAWN))
