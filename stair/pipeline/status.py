"""The state of every job of a run: from Snakemake's lists, progress files, the driver's journal and Slurm's queue.

The process that drives a run appends a line to the journal, `work/jobs.jsonl`, for every start, submission, end and failure
(`display.py`). The last line of a job counts. The journal decides nothing: Snakemake's lists alone say which jobs are done.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError
from stair.config.root import project_root
from stair.pipeline.driver import is_driven
from stair.pipeline.job_list import ListedJob, list_jobs
from stair.pipeline.job_logs import NOT_STARTED, explain, logs_since
from stair.pipeline.jobs import JOBS, STAGES
from stair.pipeline.resources import FETCH_RULES
from stair.pipeline.slurm_queue import ENDED_BADLY, WAITING, Queue, QueueEntry
from stair.records.progress import duration, read_progress
from stair.records.start_command import started_with

if TYPE_CHECKING:
    from rich.table import Table

State = Literal["waiting", "pending", "running", "stopped", "quiet", "failed", "done"]
STATES: tuple[State, ...] = ("done", "running", "pending", "failed", "stopped", "quiet", "waiting")

QUIET_SECONDS = 120.0
"""A job without an update for so long counts as quiet: it ended early, or its machine is gone."""


def job_name(rule: str, wildcards: Mapping[str, str]) -> str:
    """A job's name: that of its progress file, or its rule with its wildcards."""
    if rule in JOBS and JOBS[rule].progress:
        return JOBS[rule].progress.format(**wildcards)
    return "/".join((rule, *(value for key, value in wildcards.items() if key != "suffix")))


# ---------------------------------------------------------------- the journal


@dataclass(frozen=True)
class Entry:
    """A line of the journal: what happened last to a job."""

    job: str
    event: Literal["started", "finished", "failed", "again", "stopped"]
    """`again`: Snakemake tries the failed job again. `stopped`: by a signal."""
    time: float
    logs: tuple[str, ...] = ()
    """The job's log and the cluster's; after a failure the one that explains it."""
    slurm: str = ""
    reason: str = ""
    tail: tuple[str, ...] = ()


def journal_path(paths: RunPaths) -> Path:
    return paths.work() / "jobs.jsonl"


def append(paths: RunPaths, entry: Entry) -> None:
    """Appends a line to the journal. A full disk loses the line and stops nothing: the jobs report it themselves."""
    with suppress(OSError):
        journal_path(paths).parent.mkdir(parents=True, exist_ok=True)
        with open(journal_path(paths), "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")


def read_journal(paths: RunPaths) -> dict[str, Entry]:
    """The last entry of every job, by its name. Torn lines are skipped."""
    entries = {}
    with suppress(FileNotFoundError), open(journal_path(paths), encoding="utf-8", errors="replace") as file:
        for line in file:
            with suppress(ValueError, TypeError):
                entry = Entry(**json.loads(line))
                entries[entry.job] = entry
    return entries


# ---------------------------------------------------------------- the states


@dataclass(frozen=True)
class Job:
    """A job of the run."""

    name: str
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
    """Why it waits in the queue, the node that runs it, or why it failed."""
    log: str = ""
    tail: tuple[str, ...] = ()


def all_and_left(config: Config, paths: RunPaths) -> tuple[list[ListedJob], list[ListedJob]]:
    """All jobs of a run, and those that it must still run. Two dry runs, which take no lock, side by side.

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


def uses_slurm(paths: RunPaths) -> bool:
    """Whether jobs of the run were submitted to Slurm."""
    return any(entry.slurm for entry in read_journal(paths).values())


def job_states(
    paths: RunPaths,
    every: Iterable[ListedJob],
    left: Iterable[ListedJob],
    now: float | None = None,
    queue: Queue | None = None,
) -> list[Job]:
    """The state of every job of a run, in the order of the stages.

    Args:
        every: all jobs of the run.
        left: those that it must still run.
        now: seconds since the epoch.
        queue: Slurm's.
    """
    to_run = {job_name(job.rule, job.wildcards) for job in left}
    journal, driven = read_journal(paths), is_driven(paths)
    now = time.time() if now is None else now
    stages = list(STAGES)
    jobs = [(job.rule, job_name(job.rule, job.wildcards)) for job in every if job.rule not in FETCH_RULES]
    jobs.sort(key=lambda job: (stages.index(JOBS[job[0]].stage), job[1]))
    states = []
    for rule, name in jobs:
        job = job_of(paths, rule, name, now)
        if name not in to_run:
            job = replace(Job(name, "done"), done=job.total, total=job.total, unit=job.unit, seconds=job.seconds)
        elif (entry := journal.get(name)) is not None:
            # Its last progress may be of some seconds ago.
            ended = (
                entry.event in ("failed", "stopped") and job_of(paths, rule, name, now, entry.time).state == "waiting"
            )
            if ended or _left(entry, driven) or job.state not in ("running", "done"):
                job = _by_journal(job, entry, queue or {}, driven)
        states.append(job)
    return states


def job_of(paths: RunPaths, rule: str, name: str, now: float, since: float = 0.0) -> Job:
    """A job by its progress file; it waits without one that was written since then."""
    progress = read_progress(paths.progress_of(name)) if JOBS[rule].progress else None
    if progress is None or progress.updated < since:
        return Job(name, "waiting")
    alive = now - progress.updated < QUIET_SECONDS
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


def _left(entry: Entry, driven: bool) -> bool:
    """Whether a job was started on the machine of a driver that is gone, and so is gone too."""
    return entry.event == "started" and not entry.slurm and not driven


def _by_journal(job: Job, entry: Entry, queue: Queue, driven: bool) -> Job:
    """The state of a job that has ended or has no fresh progress, by the driver's last entry and Slurm's queue."""
    if entry.event == "stopped" or _left(entry, driven):
        return Job(job.name, "stopped", job.done, job.total, job.unit, seconds=job.seconds)
    if entry.event == "failed":
        log, tail = entry.logs[0] if entry.logs else "", tuple(entry.tail)
        ended = replace(job, state="failed", tokens_per_s=None, running=None, seconds_left=None, note="")
        return replace(ended, slurm=entry.slurm, reason=entry.reason, log=log, tail=tail)
    if entry.event != "started":
        return job
    if (queued := queue.get(entry.slurm)) is not None:
        return _in_queue(job, entry, queued)
    if not driven:
        return job
    return replace(job, state="running" if not entry.slurm or _began(entry) else "pending")


def _in_queue(job: Job, entry: Entry, queued: QueueEntry) -> Job:
    job = replace(job, slurm=f"{queued.number} {queued.state}")
    if queued.state in WAITING:
        return replace(job, state="pending", reason=queued.reason)
    if queued.state not in ENDED_BADLY:
        return replace(job, state="running", reason=queued.node)
    # No driver has seen this end.
    explanation = explain(logs_since(entry.time, map(Path, entry.logs)))
    reason = f"Slurm reports {queued.state} {queued.reason}".strip()
    if explanation is None:
        return replace(job, state="failed", reason=f"{NOT_STARTED}. {reason}")
    return replace(job, state="failed", reason=reason, log=str(explanation.log), tail=explanation.tail)


def _began(entry: Entry) -> bool:
    """Whether a submitted job has opened its log since."""
    try:
        return Path(entry.logs[0]).stat().st_mtime >= entry.time - 1
    except (OSError, IndexError):
        return False


# ---------------------------------------------------------------- for the terminal and for programs


def as_json(jobs: list[Job]) -> dict[str, Any]:
    """Counts by state, the speed, the seconds left, and every job."""
    states = Counter(job.state for job in jobs)
    return {
        "counts": {state: states[state] for state in STATES},
        "tokens_per_s": round(sum(job.tokens_per_s or 0.0 for job in jobs), 1),
        "running": sum(job.running or 0 for job in jobs),
        "seconds_left": max((job.seconds_left for job in jobs if job.seconds_left is not None), default=None),
        "jobs": [asdict(job) for job in jobs],
    }


def table(jobs: list[Job]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("job", "state", "done", "running", "tokens/s", "left"):
        table.add_column(title, justify="left" if title in ("job", "state") else "right", no_wrap=title == "job")
    for job in jobs:
        if job.state in ("running", "pending", "stopped", "quiet"):
            details = " ".join(part for part in (job.slurm.partition(" ")[0], job.reason) if part)
            table.add_row(
                job.name,
                ("no news" if job.state == "quiet" else job.state) + (f" ({details})" if details else ""),
                f"{job.done} of {job.total} {job.unit}" if job.total else "",
                "" if job.running is None else str(job.running),
                "" if job.tokens_per_s is None else f"{job.tokens_per_s:.0f}",
                "" if job.seconds_left is None else duration(job.seconds_left),
            )
    return table


def totals(jobs: list[Job]) -> str:
    sums = as_json(jobs)
    count = sums["counts"]
    parts = [f"{count['done']} of {len(jobs)} jobs done", f"{count['running']} running"]
    parts += [f"{count[state]} {state}" for state in ("pending", "failed", "stopped") if count[state]]
    parts.append(f"{count['waiting']} to come")
    if count["quiet"]:
        parts.append(f"{count['quiet']} without news for {duration(QUIET_SECONDS)} or more")
    if count["running"]:
        parts.append(f"{sums['running']} responses under way, {sums['tokens_per_s']:.0f} tokens/s")
    if sums["seconds_left"] is not None:
        parts.append(f"the running jobs end in {duration(sums['seconds_left'])}")
    return ", ".join(parts)


def failure_lines(jobs: list[Job]) -> list[str]:
    """Each failed job with its reason and the last lines of its log."""
    lines = []
    for job in jobs:
        if job.state == "failed":
            number = f" (Slurm {job.slurm})" if job.slurm else ""
            lines += ["", f"failed: {job.name}{number}" + (f": {' '.join(job.reason.split())}" if job.reason else "")]
            lines += [f"  {job.log}" if job.log else "  it has no log", *(f"  | {line}" for line in job.tail)]
    return lines
