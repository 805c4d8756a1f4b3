"""The state of a run's jobs for the terminal and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stair.pipeline.status import QUIET_SECONDS, STATES, Job
from stair.records.progress import duration

if TYPE_CHECKING:
    from rich.table import Table


def _sums(jobs: Iterable[Job]) -> dict[str, Any]:
    """All jobs together: counts by state, the running ones' speed, and when the last of them ends."""
    jobs = list(jobs)
    states = Counter(job.state for job in jobs)
    left = [job.seconds_left for job in jobs if job.seconds_left is not None]
    return {
        "counts": {state: states[state] for state in STATES},
        "tokens_per_s": round(sum(job.tokens_per_s or 0.0 for job in jobs), 1),
        "running": sum(job.running or 0 for job in jobs),
        "seconds_left": max(left, default=None),
    }


def as_json(jobs: list[Job]) -> dict[str, Any]:
    """The sums and every job, for programs."""
    return _sums(jobs) | {"jobs": [asdict(job) for job in jobs]}


def table(jobs: list[Job]) -> Table:
    """Running, pending and quiet jobs, and a last line for all."""
    from rich.table import Table

    sums = _sums(jobs)
    table = Table(box=None, pad_edge=False)
    for title in ("job", "state", "done", "running", "tokens/s", "left"):
        table.add_column(title, justify="left" if title in ("job", "state") else "right", overflow="fold")
    for job in jobs:
        if job.state in ("running", "pending", "quiet"):
            table.add_row(
                job.name,
                _state(job),
                f"{job.done} of {job.total} {job.unit}" if job.total else "",
                "" if job.running is None else str(job.running),
                "" if job.tokens_per_s is None else f"{job.tokens_per_s:.0f}",
                "" if job.seconds_left is None else duration(job.seconds_left),
            )
    count = sums["counts"]
    totals = f"{count['done']} of {len(jobs)} jobs done, {count['running']} running, "
    totals += "".join(f"{count[state]} {state}, " for state in ("pending", "failed") if count[state])
    totals += f"{count['waiting']} to come"
    if count["quiet"]:
        totals += f", {count['quiet']} without news for {duration(QUIET_SECONDS)} or more"
    left = "" if sums["seconds_left"] is None else duration(sums["seconds_left"])
    speed = f"{sums['tokens_per_s']:.0f}" if count["running"] else ""
    table.add_row(totals, "", "", str(sums["running"]) if count["running"] else "", speed, left)
    return table


def _state(job: Job) -> str:
    """With Slurm's number and, in the queue, the reason."""
    words = "no news" if job.state == "quiet" else job.state
    details = " ".join(part for part in (job.slurm.partition(" ")[0], job.reason) if part)
    return f"{words} ({details})" if details else words


def failure_lines(jobs: list[Job]) -> list[str]:
    """Each failed job with its reason and the last lines of its log."""
    lines = []
    for job in jobs:
        if job.state == "failed":
            number = f" (Slurm {job.slurm})" if job.slurm else ""
            lines += ["", f"failed: {job.name}{number}" + (f": {' '.join(job.reason.split())}" if job.reason else "")]
            lines += [f"  {job.log}" if job.log else "  it has no log", *(f"  | {line}" for line in job.tail)]
    return lines
