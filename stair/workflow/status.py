"""The progress of a run's long jobs, from their progress files; jobs may run on other machines."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph.outputs import OUTPUTS
from stair.graph.run import Run
from stair.jobs.progress import duration

if TYPE_CHECKING:
    from rich.table import Table

State = Literal["waiting", "running", "quiet", "done"]

QUIET_SECONDS = 120.0
"""A job without an update for so long counts as quiet: it ended early, or its machine is gone."""


@dataclass(frozen=True)
class Job:
    """A job with a progress file."""

    name: str
    """Stage, model, benchmark, condition, shard."""
    state: State
    done: int = 0
    total: int = 0
    unit: str = ""
    tokens_per_s: float | None = None
    running: int | None = None
    """Responses under way."""
    seconds: float = 0.0
    """Since the job started this time."""
    seconds_left: float | None = None
    note: str = ""


def job_states(config: Config, paths: RunPaths, now: float | None = None) -> list[Job]:
    """The state of every job of a run with a progress file, in the order of the graph; `now` is seconds since the epoch."""
    return [_job(paths, name, time.time() if now is None else now) for name in _names(Run(config, paths))]


def _names(run: Run) -> Iterator[str]:
    """The names of progress files: one for each shard of an output that has shards."""
    for output in OUTPUTS.values():
        for name in output.jobs(run) if output.work else ():
            if output.shards is None:
                yield output.work_of(*name)
            else:
                yield from (f"{output.work_of(*name)}/{shard}" for shard in range(output.shards.count(run, *name)))


def _job(paths: RunPaths, name: str, now: float) -> Job:
    try:
        progress = json.loads(paths.progress_of(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Job(name, "waiting")
    done, total, fresh = progress["done"], progress["total"], progress.get("fresh", 0)
    state: State = "done" if done >= total else "running" if now - progress["updated"] < QUIET_SECONDS else "quiet"
    facts = progress.get("facts", {})
    left = progress["seconds"] / fresh * (total - done) if state == "running" and fresh else None
    return Job(
        name=name,
        state=state,
        done=done,
        total=total,
        unit=progress["unit"],
        tokens_per_s=facts.get("tokens_per_s") if state == "running" else None,
        running=facts.get("running") if state == "running" else None,
        seconds=progress["seconds"],
        seconds_left=left,
        note=progress["note"] if state == "running" else "",
    )


def _sums(jobs: Iterable[Job]) -> dict[str, Any]:
    """All jobs together: counts by state, the running ones' speed, and when the last of them ends."""
    jobs = list(jobs)
    states = Counter(job.state for job in jobs)
    left = [job.seconds_left for job in jobs if job.seconds_left is not None]
    return {
        "jobs": {state: states[state] for state in ("done", "running", "quiet", "waiting")},
        "tokens_per_s": round(sum(job.tokens_per_s or 0.0 for job in jobs), 1),
        "running": sum(job.running or 0 for job in jobs),
        "seconds_left": max(left, default=None),
    }


def as_json(jobs: list[Job]) -> dict[str, Any]:
    """The sums and every job, for programs."""
    return _sums(jobs) | {"shards": [asdict(job) for job in jobs]}


def table(jobs: list[Job]) -> Table:
    """Running and quiet jobs, and a last line for all, for the terminal."""
    from rich.table import Table

    sums = _sums(jobs)
    table = Table(box=None, pad_edge=False)
    for title in ("job", "state", "done", "running", "tokens/s", "left"):
        table.add_column(title, justify="left" if title in ("job", "state") else "right", overflow="fold")
    for job in jobs:
        if job.state in ("running", "quiet"):
            table.add_row(
                job.name,
                "no news" if job.state == "quiet" else "running",
                f"{job.done} of {job.total} {job.unit}",
                "" if job.running is None else str(job.running),
                "" if job.tokens_per_s is None else f"{job.tokens_per_s:.0f}",
                "" if job.seconds_left is None else duration(job.seconds_left),
            )
    count = sums["jobs"]
    totals = f"{count['done']} of {len(jobs)} jobs done, {count['running']} running, {count['waiting']} to come"
    if count["quiet"]:
        totals += f", {count['quiet']} without news for {duration(QUIET_SECONDS)} or more"
    left = "" if sums["seconds_left"] is None else duration(sums["seconds_left"])
    speed = f"{sums['tokens_per_s']:.0f}" if count["running"] else ""
    table.add_row(totals, "", "", str(sums["running"]) if count["running"] else "", speed, left)
    return table
