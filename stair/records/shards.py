"""Shards of durable work. A job resumes the work of earlier jobs and writes a completion marker.

Results are records of a log (`stair.records.worklog`) or files of tensors (`stair.records.tensor_files`). Both outlive their
job and do not depend on the number of shards, which may change between two starts. Nothing keeps two processes from one
shard: they write files of their own or equal ones, so they lose time, and no work. The attempts that did the work are
recorded beside it, so that a seal names their code and machines and sums their seconds, however often it is made.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from stair.records.keys import digest_of
from stair.records.manifest import GENERATED, GENERATED_BY, GENERATED_ON, GENERATING_SECONDS, hardware
from stair.records.worklog import WorkLog, WorkLogWriter

T = TypeVar("T")

_ATTEMPTS = "attempts"
"""The folder of the records of attempts, in the folder of the work that they did."""
_CODE, _HARDWARE, _LOG, _SECONDS, _GENERATED = "code", "hardware", "log", "seconds", "generated"
"""Keys of an attempt: the first three from its start, the others from its end. A killed attempt has none of the latter."""

SEAL_AGAIN = "run the same command again (by hand: run the stage's shards again)"
"""The remedy of a seal that has removed markers."""


class Shard(NamedTuple):
    """One of `of` shards, by its number from 0."""

    number: int
    of: int
    code: str = ""
    """The fingerprint of the code of its job."""

    @property
    def name(self) -> str:
        """The name of its marker and log."""
        return f"shard-{self.number}-of-{self.of}"

    def share(self, items: Sequence[T]) -> list[T]:
        """Its items: every `of`-th, so that shards are equally long. Raises ValueError without such a shard."""
        if not 0 <= self.number < self.of:
            raise ValueError(f"shard {self.number} does not exist among {self.of} (they are numbered from 0)")
        return list(items[self.number :: self.of])


@contextmanager
def recorded_attempt(work: Path, shard: Shard, generated: Callable[[], int], log: str = "") -> Iterator[None]:
    """Records an attempt of a shard: its code and machine before, its seconds and the pieces that it generated after it.

    Args:
        work: the folder of the log, or of other work.
        log: the name of the log file that it writes.
    """
    start = time.monotonic()
    with WorkLogWriter(work / _ATTEMPTS, shard.name) as record:
        record.append(f"{record.path.stem}/start", {_CODE: shard.code, _HARDWARE: hardware(), _LOG: log})
        try:
            yield
        finally:
            seconds = round(time.monotonic() - start, 1)
            with suppress(OSError):  # a full disk is the work's own error
                record.append(f"{record.path.stem}/end", {_SECONDS: seconds, _GENERATED: generated()})


def generating_facts(work: Path, logs: Collection[Path] | None = None) -> dict[str, Any]:
    """Facts for the seal's manifest from the attempts that generated: their distinct codes and machines, and two sums.

    A killed attempt is in neither sum, so their ratio is a speed. The sums are those of `work`: what another run has generated
    is that run's cost.

    Args:
        work: as of `recorded_attempt`.
        logs: the log files with the sealed records, other runs' too; None: the seal takes all work of the folder.
    """
    folders = dict.fromkeys([work, *sorted({path.parent for path in logs or ()})])
    kept = {
        folder: [
            each for each in _attempts(folder) if logs is None or not each.get(_LOG) or folder / each[_LOG] in logs
        ]
        for folder in folders
    }
    own, every = kept[work], [each for attempts in kept.values() for each in attempts]
    return {
        GENERATED_BY: sorted({each[_CODE] for each in every if each.get(_CODE)}),
        GENERATED_ON: [*{digest_of(each[_HARDWARE]): each[_HARDWARE] for each in every if _HARDWARE in each}.values()],
        GENERATING_SECONDS: round(sum(each.get(_SECONDS, 0.0) for each in own), 1),
        GENERATED: sum(each.get(_GENERATED, 0) for each in own),
    }


def _attempts(work: Path) -> Iterator[dict[str, Any]]:
    """The attempts that generated something, as far as is known: of a killed one it is not."""
    attempts = defaultdict[str, dict[str, Any]](dict)
    for key, record in WorkLog(work / _ATTEMPTS).items():
        attempts[key.rpartition("/")[0]] |= record
    return (each for each in attempts.values() if each.get(_GENERATED, 1))


def write_marker(work: Path, shard: Shard) -> None:
    """Writes the completion marker of a shard (`RunPaths.shard`): an empty file."""
    work.mkdir(parents=True, exist_ok=True)
    (work / f"{shard.name}.done").touch()


def remove_markers(work: Path) -> None:
    """Removes the markers of shards after a loss: the next start runs the shards again and reuses the kept work."""
    for marker in work.glob("shard-*-of-*.done"):
        marker.unlink(missing_ok=True)
