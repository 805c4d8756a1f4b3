"""Slurm's queue: this user's jobs by their numbers."""

from __future__ import annotations

from dataclasses import dataclass

from stair.records.slurm import slurm_output

_FORMAT = "%i|%T|%r|%N|%j"
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
    node: str
    name: str


Queue = dict[str, QueueEntry]


def slurm_queue(*, ended: bool = False, seconds: float = 120.0) -> Queue:
    """The user's jobs, from `squeue`.

    Args:
        ended: whether to include jobs that ended some minutes ago.
        seconds: how long squeue may take.

    Raises:
        SlurmError: Slurm does not answer, or is not installed here.
    """
    states = ["--states=all"] if ended else []
    return parse_queue(slurm_output("squeue", "--me", "--noheader", "--format", _FORMAT, *states, seconds=seconds))


def parse_queue(listed: str) -> Queue:
    lines = (line.strip().split("|", 4) for line in listed.splitlines())
    entries = (QueueEntry(*parts) for parts in lines if len(parts) == 5)
    return {entry.number: entry for entry in entries}
