"""Slurm's queue: the jobs of this project's folder, by number and by the comment of Snakemake's executor."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from stair.records.slurm_commands import SlurmError, SlurmSilentError, slurm_output

_SECONDS = 10.0
_FORMAT = "%i|%T|%r|%M|%N|%Z|%k"
WAITING = {
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
    "SUSPENDED",
}
ENDED_BADLY = {
    "BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip


@dataclass(frozen=True)
class QueueEntry:
    """A job in Slurm."""

    number: str
    state: str
    """As Slurm names it: PENDING, RUNNING, ..."""
    reason: str
    elapsed: str
    node: str


class QueueError(Exception):
    """Slurm does not answer; the message is its first line."""


@dataclass(frozen=True)
class Queue:
    """The user's jobs that were submitted from one folder."""

    by_number: dict[str, QueueEntry]
    by_comment: dict[str, QueueEntry]
    """The newest job of each comment."""

    def find(self, number: str, comment: str) -> QueueEntry | None:
        """A job by its number, else by its comment."""
        return self.by_number.get(number) if number else self.by_comment.get(comment)


EMPTY = Queue({}, {})


def slurm_queue(folder: Path) -> Queue:
    """Asks `squeue` for this user's jobs, those that ended some minutes ago included.

    Args:
        folder: where the jobs were submitted: the project's folder.

    Raises:
        QueueError: Slurm is here and does not answer.
    """
    if shutil.which("squeue") is None:
        return EMPTY
    command = ["squeue", "--me", "--noheader", "--states=all", "--format", _FORMAT]
    try:
        return parse_queue(slurm_output(*command, seconds=_SECONDS), folder)
    except SlurmSilentError:
        raise QueueError(f"squeue gave no answer within {_SECONDS:.0f} s") from None
    except SlurmError as error:
        raise QueueError(str(error).splitlines()[0]) from None


def parse_queue(listed: str, folder: Path) -> Queue:
    """The queue from squeue's lines."""
    queue = Queue({}, {})
    for line in listed.splitlines():
        parts = line.strip().split("|", 6)
        if len(parts) != 7:
            continue
        number, state, reason, elapsed, node, place, comment = parts
        entry = QueueEntry(number, state, "" if reason == "None" else reason, elapsed, node)
        queue.by_number[number] = entry
        known = queue.by_comment.get(comment)
        if Path(place).resolve() == folder.resolve() and (known is None or _order(known.number) < _order(number)):
            queue.by_comment[comment] = entry
    return queue


def _order(number: str) -> int:
    digits = number.partition("_")[0]
    return int(digits) if digits.isdigit() else 0
