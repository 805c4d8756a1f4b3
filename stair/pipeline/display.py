"""The display of a run, Snakemake's logger plugin: finished jobs, running jobs with their progress, the time left.

It also writes the driver's journal (`status.py`).
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.file_proxy import FileProxy
from rich.live import Live
from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from stair.config.paths import START
from stair.pipeline import driven_run
from stair.pipeline.driver import drives
from stair.pipeline.job_list import JOB_LIST
from stair.pipeline.job_logs import (
    KILLED,
    NOT_STARTED,
    ended_on_slurm,
    ended_process,
    explain,
    full_disk,
    logs_since,
    refusal,
)
from stair.pipeline.status import Entry, Job, append, job_name, job_of, table
from stair.records.progress import duration

_DEFAULT_SECONDS = 3.0
_STOPPED = ": stopped by "
"""Part of the last line of a job that a signal has stopped."""
_SUBMITTED = re.compile(r"Job (\d+) has been submitted with SLURM jobid (\d+)(?: \(log: (.*)\))?")
"""A message of Snakemake's Slurm executor."""
_SHOWN_ELSEWHERE = (LogEvent.JOB_STARTED, LogEvent.PROGRESS, LogEvent.RESOURCES_INFO, LogEvent.WORKFLOW_STARTED)


@dataclass
class _Running:
    rule: str
    name: str
    log: list[str]
    """Empty for a target, which only gathers other jobs."""
    slurm: str = ""
    started: float = field(default_factory=time.time)


class LogHandler(LogHandlerBase):
    """Shows the events of jobs. Dry runs and all other events look as in Snakemake."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = False
    has_formatter = False
    needs_rulegraph = False

    def __post_init__(self) -> None:
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
        self._terminal = sys.stderr.isatty()
        stream: Any = FileProxy(self._console, sys.stderr) if self._terminal else sys.stderr
        self._plain = ColorizingTextHandler(nocolor=self.common_settings.nocolor, stream=stream)
        self._started = time.time()
        self._jobs: dict[int, _Running] = {}
        self._failures: Counter[int] = Counter()
        self._reasons: set[str] = set()
        """Those of failed jobs. Several jobs can read one damaged file, and its remedy is shown once."""
        self._counts: dict[str, int] = {}
        self._finished: Counter[str] = Counter()
        self._ends: dict[str, str] = {}
        """By a job's log, how its process ended."""
        self._live = Live(console=self._console, get_renderable=self._view, transient=True, refresh_per_second=1)

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        super().setFormatter(fmt)
        self._plain.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if JOB_LIST in os.environ:
            _list(event, record, self._plain)
        elif self.common_settings.dryrun or not self._handles(event, record):
            self._plain.emit(record)

    def close(self) -> None:
        self._live.stop()
        super().close()

    # ---------------------------------------------------------------- events

    def _handles(self, event: Any, record: Any) -> bool:
        """Shows an event of a job; False for other events."""
        handlers = {
            LogEvent.RUN_INFO: self._run_planned,
            LogEvent.JOB_INFO: self._job_begins,
            LogEvent.JOB_FINISHED: self._job_finished,
            LogEvent.JOB_ERROR: self._job_failed,
        }
        if (handler := handlers.get(event)) is not None:
            handler(record)
            return True
        message = record.getMessage()
        if submitted := _SUBMITTED.search(message):
            self._submitted(*submitted.groups())
            return True
        if ended := ended_process(message):
            self._ends.update([ended])
            return True
        if event in _SHOWN_ELSEWHERE:
            return True
        # Snakemake's other messages below warnings repeat what is shown here.
        return bool(record.levelno < logging.WARNING and not message.startswith("Nothing to be done"))

    def _run_planned(self, record: Any) -> None:
        self._counts = {rule: count for rule, count in record.stats.items() if rule != "total"}
        self._started = time.time()
        self._print(f"{sum(self._counts.values())} jobs to do, {self._state().rpartition(', ')[2]}")
        if self._terminal:
            self._live.start(refresh=True)

    def _job_begins(self, record: Any) -> None:
        logs = [os.path.abspath(log) for log in record.log or ()]
        name = job_name(record.rule_name, dict(record.wildcards or {}))
        self._jobs[record.jobid] = job = _Running(record.rule_name, name, logs)
        self._note(job, "started", logs=tuple(logs))

    def _submitted(self, job_id: str, number: str, log: str | None) -> None:
        if (job := self._jobs.get(int(job_id))) is not None:
            job.slurm = number
            self._note(job, "started", logs=(*job.log, *([os.path.abspath(log)] if log else [])))

    def _job_finished(self, record: Any) -> None:
        job = self._jobs.pop(record.job_id, None)
        if job is None:
            return
        self._finished[job.rule] += 1
        self._note(job, "finished")
        if job.rule in self._counts and job.log:
            self._print(f"{self._state()} · {job.name} took {duration(time.time() - job.started)}")

    def _job_failed(self, record: Any) -> None:
        job = self._jobs.pop(record.jobid, None) or _Running(record.rule_name, record.rule_name, [], started=0.0)
        logs = [os.path.abspath(log) for log in record.log or job.log]
        refused = refusal(record.rule_msg or "")
        written = [] if refused else logs_since(job.started, map(Path, logs))  # an earlier attempt's explains nothing
        explanation = explain(written)
        ended = self._ends.pop(next(iter(record.log), ""), "") or ended_on_slurm(record.rule_msg or "")
        if written and (explanation is None or (KILLED in ended and not explanation.own)):
            reason = ended or "no message in its log"
        else:
            reason = explanation.line if explanation else refused or NOT_STARTED
        if logs and "make room" not in reason and (full := full_disk(Path(logs[0]))):
            reason = f"{reason}; {full}"
        event, words = self._outcome(record.jobid, job.rule, reason)
        log, tail = ((str(explanation.log),), explanation.tail) if explanation else ((), ())
        self._note(job, event, logs=log, reason=reason, tail=tail)
        where = f" (log: {', '.join(map(_from_start, logs))})" if written and event != "stopped" else ""
        # Only a command's own error says all; two jobs that were killed have two reasons.
        if event == "failed" and explanation is not None and explanation.own:
            if reason in self._reasons:
                self._print(f"also failed: {job.name}, for the same reason{where}")
                return
            self._reasons.add(reason)
        self._print(f"{words}: {job.name}: {reason.removeprefix('stair: ')}{where}")

    def _outcome(self, number: int, rule: str, reason: str) -> tuple[str, str]:
        """Whether a failed job was stopped, is tried again by itself, or has failed: for the journal and for people."""
        self._failures[number] += 1
        retries = 0 if driven_run.current is None else driven_run.current.retries(rule)
        if _STOPPED in reason:
            return "stopped", "stopped"
        if self._failures[number] <= retries:
            return "again", "tried again"
        return "failed", "failed"

    def _note(self, job: _Running, event: Any, **details: Any) -> None:
        """Writes to the journal. A job of a cluster also starts a Snakemake, which does not."""
        if job.log and driven_run.current is not None and drives():
            entry = Entry(job.name, event, round(time.time(), 1), slurm=job.slurm, **details)
            append(driven_run.current.paths, entry)

    # ---------------------------------------------------------------- progress

    def _running(self) -> list[tuple[str, Job]]:
        jobs, now = [], time.time()
        for running in list(self._jobs.values()):  # the screen's thread reads here, too
            job = Job(running.name, "running")
            if driven_run.current is not None:
                job = job_of(driven_run.current.paths, running.rule, running.name, now, since=running.started - 1)
            jobs.append((running.rule, replace(job, state="running")))
        return jobs

    def _state(self, running: list[tuple[str, Job]] | None = None) -> str:
        """The done share of the work, by the expected seconds of its jobs, and the time left."""
        expected = driven_run.current.config.expected_seconds if driven_run.current else {}
        weight = {rule: expected.get(rule, _DEFAULT_SECONDS) for rule in self._counts}
        total = sum(count * weight[rule] for rule, count in self._counts.items())
        done = sum(min(self._finished[rule], count) * weight[rule] for rule, count in self._counts.items())
        for rule, job in self._running() if running is None else running:
            done += weight.get(rule, 0.0) * (job.done / job.total if job.total else 0.0)
        elapsed = time.time() - self._started
        share = f"{done / total:4.0%}" if total else "100%"
        # Without expected seconds, jobs of a second and of a day count alike.
        left = f"about {duration(seconds_left(done, total, elapsed))} left" if expected else "time left unknown"
        return f"{share} after {duration(elapsed)}, {left}"

    def _view(self) -> Group:
        running = self._running()
        return Group(self._state(running), table([job for _, job in running]))

    def _print(self, line: str) -> None:
        self._console.print(line)


def _list(event: Any, record: Any, plain: logging.Handler) -> None:
    """Writes a job of a dry run to the file of `list_jobs`, and shows errors alone."""
    if event == LogEvent.JOB_INFO and record.shellcmd is not None:
        job = {
            "rule": record.rule_name,
            "wildcards": dict(record.wildcards or {}),
            "inputs": [str(file) for file in record.input or ()],
            "outputs": [str(file) for file in record.output or ()],
            "log": [str(file) for file in record.log or ()],
            "reason": record.reason,
        }
        with open(os.environ[JOB_LIST], "a", encoding="utf-8") as file:
            file.write(json.dumps(job) + "\n")
    elif record.levelno >= logging.ERROR:
        plain.emit(record)


def seconds_left(done: float, total: float, elapsed: float) -> float:
    """Seconds left of work whose expected seconds are `total`.

    The expected pace of two cores counts as a tenth of the work: in the first seconds, packages are imported and nothing ends.
    """
    expected = 0.1 * total
    return (total - done) * (elapsed + expected / min(os.cpu_count() or 1, 2)) / max(done + expected, 1e-9)


def _from_start(log: str) -> str:
    """The path of a log from the folder of the start; Snakemake works in the run's folder."""
    path, start = Path(log), Path(os.environ.get(START, "")).absolute()
    return str(path.relative_to(start)) if path.is_relative_to(start) else log
