"""How far a run's long jobs are, from the progress files that they write; jobs may be at work on other machines."""

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
"""A job that has not written for so long has ended early, or its machine is gone."""


@dataclass(frozen=True)
class Job:
    """A job that tells how far it is."""

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


def watched(config: Config, paths: RunPaths, now: float | None = None) -> list[Job]:
    """Every job of a run that tells how far it is, in the order of the graph; `now` is seconds since the epoch."""
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
        told = json.loads(paths.progress_of(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Job(name, "waiting")
    done, total, fresh = told["done"], told["total"], told.get("fresh", 0)
    state: State = "done" if done >= total else "running" if now - told["updated"] < QUIET_SECONDS else "quiet"
    facts = told.get("facts", {})
    left = told["seconds"] / fresh * (total - done) if state == "running" and fresh else None
    return Job(
        name=name,
        state=state,
        done=done,
        total=total,
        unit=told["unit"],
        tokens_per_s=facts.get("tokens_per_s") if state == "running" else None,
        running=facts.get("running") if state == "running" else None,
        seconds=told["seconds"],
        seconds_left=left,
        note=told["note"] if state == "running" else "",
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
    """For programs: the sums, and every job."""
    return _sums(jobs) | {"shards": [asdict(job) for job in jobs]}


def table(jobs: list[Job]) -> Table:
    """For the terminal: jobs that are at work or fell silent, and in the last line all."""
    from rich.table import Table

    sums = _sums(jobs)
    shown = Table(box=None, pad_edge=False)
    for title in ("job", "state", "done", "running", "tokens/s", "left"):
        shown.add_column(title, justify="left" if title in ("job", "state") else "right", overflow="fold")
    for job in jobs:
        if job.state in ("running", "quiet"):
            shown.add_row(
                job.name,
                "no news" if job.state == "quiet" else "running",
                f"{job.done} of {job.total} {job.unit}",
                "" if job.running is None else str(job.running),
                "" if job.tokens_per_s is None else f"{job.tokens_per_s:.0f}",
                "" if job.seconds_left is None else duration(job.seconds_left),
            )
    count = sums["jobs"]
    told = f"{count['done']} of {len(jobs)} jobs done, {count['running']} running, {count['waiting']} to come"
    if count["quiet"]:
        told += f", {count['quiet']} without news for {duration(QUIET_SECONDS)} or more"
    left = "" if sums["seconds_left"] is None else duration(sums["seconds_left"])
    speed = f"{sums['tokens_per_s']:.0f}" if count["running"] else ""
    shown.add_row(told, "", "", str(sums["running"]) if count["running"] else "", speed, left)
    return shown
