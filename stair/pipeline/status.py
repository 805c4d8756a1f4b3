"""The state of every job of a run: from Snakemake's lists, progress files, leases, the driver's journal and Slurm's queue."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError
from stair.config.root import project_root
from stair.pipeline.driver_lease import run_holder
from stair.pipeline.job_list import ListedJob, list_jobs
from stair.pipeline.job_logs import NOT_STARTED, explain, logs_since, refusal
from stair.pipeline.journal import Entry, job_name, read_journal
from stair.pipeline.resources import FETCH_RULES
from stair.pipeline.slurm_queue import ENDED_BADLY, WAITING, Queue, QueueEntry
from stair.pipeline.stage_rules import PROGRESS, STAGE_OF, STAGES
from stair.records.leases import living
from stair.records.progress import read_progress
from stair.records.start_command import started_with

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


def all_and_left(config: Config, paths: RunPaths) -> tuple[list[ListedJob], list[ListedJob]]:
    """All jobs of a run, and those that it has still to run. Two dry runs, which take no lock, side by side.

    Raises:
        ConfigError: Snakemake's own message, or the folder has another name than its run.
    """
    if (name := paths.folder.absolute().name) != config.run:
        raise ConfigError(
            f"{paths.folder} belongs to the run '{config.run}': rename its folder from {name} to {config.run}"
        )
    overrides = started_with(config, paths)
    with ThreadPoolExecutor() as both:
        every = both.submit(list_jobs, project_root(), overrides, options=("--forceall",))
        left = both.submit(list_jobs, project_root(), overrides)
        return every.result(), left.result()


def job_states(
    paths: RunPaths,
    every: Iterable[ListedJob],
    left: Iterable[ListedJob],
    now: float | None = None,
    queue: Queue | None = None,
) -> list[Job]:
    """The state of every job of a run, in the order of the stages.

    Args:
        paths: the run's files.
        every: all jobs of the run.
        left: those that it has still to run.
        now: seconds since the epoch.
        queue: Slurm's.
    """
    to_run = {job_name(job.rule, job.wildcards) for job in left}
    states = _States(paths, time.time() if now is None else now, queue or {})
    stages, jobs = list(STAGES), [job for job in every if job.rule not in FETCH_RULES]
    jobs.sort(key=lambda job: (stages.index(STAGE_OF[job.rule]), shown_name(job)))
    return [states.of(job, done=job_name(job.rule, job.wildcards) not in to_run) for job in jobs]


def uses_slurm(paths: RunPaths) -> bool:
    """Whether jobs of the run were submitted to Slurm."""
    return any(entry.slurm for entry in read_journal(paths).values())


def shown_name(job: ListedJob) -> str:
    """A job's name for people: that of its progress file, or its rule with its wildcards."""
    if job.rule in PROGRESS:
        return PROGRESS[job.rule].format(**job.wildcards)
    return "/".join((job.rule, *(value for key, value in job.wildcards.items() if key != "suffix")))


class _States:
    """Reads the state of jobs at one moment."""

    def __init__(self, paths: RunPaths, now: float, queue: Queue) -> None:
        self._paths, self._now, self._queue = paths, now, queue
        self._journal = read_journal(paths)

    @cached_property
    def _driven(self) -> bool:
        return run_holder(self._paths) is not None

    def of(self, listed: ListedJob, *, done: bool) -> Job:
        """The state of a job: done as Snakemake says, else by its progress, the queue, or a living driver's journal."""
        name, entry = shown_name(listed), self._journal.get(job_name(listed.rule, listed.wildcards))
        job = self._progress(name) if listed.rule in PROGRESS else None
        if done:
            return Job(name, "done", job.total, job.total, job.unit, seconds=job.seconds) if job else Job(name, "done")
        if job is not None and job.state in ("running", "done"):
            return job
        started = entry is not None and entry.event == "started"
        if entry is not None and started and (queued := self._queue.get(entry.slurm)) is not None:
            return self._in_queue(name, entry, queued)
        if self._leased(listed):
            return _with(job, name, "running")
        if entry is not None and started and self._driven:
            return _with(job, name, "running" if not entry.slurm or _began(entry) else "pending")
        if entry is not None and entry.event == "failed":
            return self._failed(name, entry, entry.message)
        return job or Job(name, "waiting")

    def _leased(self, listed: ListedJob) -> bool:
        """Whether a process works on a shard."""
        if "shard" not in listed.wildcards:
            return False
        marker = self._paths.folder / listed.outputs[0]
        return living(marker.with_name(f".{marker.stem}.lease")) is not None

    def _progress(self, name: str) -> Job | None:
        """A job by its progress file; None without one."""
        progress = read_progress(self._paths.progress_of(name))
        if progress is None:
            return None
        alive = self._now - progress.updated < QUIET_SECONDS
        state: State = "done" if progress.done >= progress.total else "running" if alive else "quiet"
        job = Job(name, state, progress.done, progress.total, progress.unit, seconds=progress.seconds)
        if state != "running":
            return job
        return replace(
            job,
            tokens_per_s=progress.facts.get("tokens_per_s"),
            running=progress.facts.get("running"),
            seconds_left=progress.seconds_left,
            note=progress.note,
        )

    def _in_queue(self, name: str, entry: Entry, queued: QueueEntry) -> Job:
        slurm = f"{queued.number} {queued.state}"
        if queued.state in ENDED_BADLY:
            return self._failed(name, entry, f"Slurm reports {queued.state} {queued.reason}".strip(), slurm)
        state: State = "pending" if queued.state in WAITING else "running"
        return Job(name, state, slurm=slurm, reason=queued.reason if state == "pending" else queued.node)

    def _failed(self, name: str, entry: Entry, reason: str, slurm: str = "") -> Job:
        """The log's last lines; a job that never began has those of the cluster's log only."""
        refused = refusal(reason)
        written = [] if refused else logs_since(entry.began, entry.logs)
        if not written:
            reason = refused or f"{NOT_STARTED}. {reason}".strip()
        explanation = explain(written)
        log = str(explanation.log if explanation else written[0] if written else "")
        tail = explanation.tail if explanation else ()
        return Job(name, "failed", slurm=slurm or entry.slurm, reason=reason, log=log, tail=tail)


def _with(job: Job | None, name: str, state: State) -> Job:
    return Job(name, state, job.done, job.total, job.unit, seconds=job.seconds) if job else Job(name, state)


def _began(entry: Entry) -> bool:
    """Whether a started job has opened its log since."""
    try:
        return entry.logs[0].stat().st_mtime >= entry.time - 1
    except (OSError, IndexError):
        return False
