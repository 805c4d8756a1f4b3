"""The state of every job of a run: from its outputs, progress files, leases, the driver's journal and Slurm's queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph import job_inputs
from stair.graph.outputs import OUTPUTS
from stair.graph.run import Run
from stair.jobs.leases import living
from stair.jobs.progress import read_progress
from stair.workflow.driver_lease import run_holder
from stair.workflow.job_logs import NOT_STARTED, explain, logs_since, refusal
from stair.workflow.journal import Entry, JobName, job_name, read_journal
from stair.workflow.slurm_queue import EMPTY, ENDED_BADLY, WAITING, Queue, QueueEntry

State = Literal["waiting", "pending", "running", "quiet", "failed", "done"]
STATES: tuple[State, ...] = ("done", "running", "pending", "failed", "quiet", "waiting")

QUIET_SECONDS = 120.0
"""A job without an update for so long counts as quiet: it ended early, or its machine is gone."""


@dataclass(frozen=True)
class Job:
    """A job of the run."""

    name: str
    """Stage, model, benchmark, condition, shard; or the rule with its wildcards."""
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
    slurm: str = ""
    """Slurm's number of the job, with its state."""
    reason: str = ""
    """Why it waits in the queue, or what Snakemake or Slurm reports on its failure."""
    log: str = ""
    tail: tuple[str, ...] = ()
    """The last lines of a failed job's log."""


@dataclass(frozen=True)
class _Place:
    """A job in the graph."""

    name: str
    journal: tuple[JobName, ...]
    """Its names in the journal: an output may have a rule for each kind."""
    files: tuple[Path, ...]
    progress: Path | None = None
    lease: Path | None = None


def job_states(config: Config, paths: RunPaths, now: float | None = None, queue: Queue = EMPTY) -> list[Job]:
    """The state of every job of a run, in the order of the graph.

    Args:
        config: the run.
        paths: its files.
        now: seconds since the epoch.
        queue: Slurm's.
    """
    states = _States(paths, time.time() if now is None else now, queue)
    return [states.of(place) for place in _places(Run(config, paths))]


def uses_slurm(paths: RunPaths) -> bool:
    """Whether jobs of the run were submitted to Slurm."""
    return any(entry.slurm for entry in read_journal(paths).values())


def _places(run: Run) -> Iterator[_Place]:
    """Every job: the shards of an output before the output itself."""
    for output in OUTPUTS.values():
        for name in output.jobs(run):
            files = tuple(output.files(run, *name))
            values = output.values(*name)
            journal = tuple(job_name(rule, values) for rule in output.rules)
            if output.shards is not None:
                work = output.work_of(*name)
                done = all(file.exists() for file in files)
                markers = job_inputs.markers(run, output, *name)
                for shard, marker in enumerate(markers):
                    numbers = {"shard": str(shard), "of": str(len(markers))}
                    yield _Place(
                        f"{work}/{shard}",
                        (job_name(output.shards.rule, values | numbers),),
                        files if done else (marker,),
                        run.paths.progress_of(f"{work}/{shard}"),
                        marker.with_name(f".{marker.stem}.lease"),
                    )
            if output.work and output.shards is None:
                yield _Place(output.work_of(*name), journal, files, run.paths.progress_of(output.work_of(*name)))
            else:
                yield _Place("/".join((output.rules[0], *name)), journal, files)


class _States:
    """Reads the state of jobs at one moment."""

    def __init__(self, paths: RunPaths, now: float, queue: Queue) -> None:
        self._paths, self._now, self._queue = paths, now, queue
        self._journal = read_journal(paths)

    @cached_property
    def _driven(self) -> bool:
        return run_holder(self._paths) is not None

    def of(self, place: _Place) -> Job:
        """The state of a job. Its outputs come first, then what the queue says, then the journal of a living driver."""
        if all(file.exists() for file in place.files):
            return self._finished(place)
        entries = [self._journal[name] for name in place.journal if name in self._journal]
        entry = max(entries, key=lambda entry: entry.time, default=None)
        job = self._progress(place)
        if job is not None and job.state in ("running", "done"):
            return job
        started = entry is not None and entry.event == "started"
        if entry is not None and started and (queued := self._queue.find(entry.slurm, entry.comment)) is not None:
            return self._in_queue(place, entry, queued)
        if place.lease is not None and living(place.lease) is not None:
            return _with(job, place, "running")
        if entry is not None and started and self._driven:
            return _with(job, place, "running" if not entry.slurm or _began(entry) else "pending")
        if entry is not None and entry.event == "failed":
            return self._failed(place, entry, entry.message)
        return job or Job(place.name, "waiting")

    def _finished(self, place: _Place) -> Job:
        """A job with its outputs; its progress file has the counts."""
        job = self._progress(place)
        if job is None:
            return Job(place.name, "done")
        return Job(place.name, "done", job.total, job.total, job.unit, seconds=job.seconds)

    def _progress(self, place: _Place) -> Job | None:
        """A job by its progress file; None without one."""
        progress = read_progress(place.progress) if place.progress is not None else None
        if progress is None:
            return None
        alive = self._now - progress.updated < QUIET_SECONDS
        state: State = "done" if progress.done >= progress.total else "running" if alive else "quiet"
        job = Job(place.name, state, progress.done, progress.total, progress.unit, seconds=progress.seconds)
        if state != "running":
            return job
        return replace(
            job,
            tokens_per_s=progress.facts.get("tokens_per_s"),
            running=progress.facts.get("running"),
            seconds_left=progress.seconds_left,
            note=progress.note,
        )

    def _in_queue(self, place: _Place, entry: Entry, queued: QueueEntry) -> Job:
        slurm = f"{queued.number} {queued.state}"
        if queued.state in ENDED_BADLY:
            return self._failed(place, entry, f"Slurm reports {queued.state} {queued.reason}".strip(), slurm)
        state: State = "pending" if queued.state in WAITING else "running"
        return Job(place.name, state, slurm=slurm, reason=queued.reason if state == "pending" else queued.node)

    def _failed(self, place: _Place, entry: Entry, reason: str, slurm: str = "") -> Job:
        """The log's last lines; a job that never began has those of the cluster's log only."""
        refused = refusal(reason)
        written = [] if refused else logs_since(entry.began, entry.logs)
        if not written:
            reason = refused or f"{NOT_STARTED}. {reason}".strip()
        explanation = explain(written)
        log = str(explanation.log if explanation else written[0] if written else "")
        tail = explanation.tail if explanation else ()
        return Job(place.name, "failed", slurm=slurm or entry.slurm, reason=reason, log=log, tail=tail)


def _with(job: Job | None, place: _Place, state: State) -> Job:
    return Job(place.name, state, job.done, job.total, job.unit, seconds=job.seconds) if job else Job(place.name, state)


def _began(entry: Entry) -> bool:
    """Whether a started job has opened its log since."""
    try:
        return entry.logs[0].stat().st_mtime >= entry.time - 1
    except (OSError, IndexError):
        return False
