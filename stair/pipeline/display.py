"""The display of a run: each finished job, and the progress of all jobs with the time left."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from stair.config.paths import START
from stair.pipeline import driven_run
from stair.pipeline.driver_lease import holds_run
from stair.pipeline.job_list import JOB_LIST
from stair.pipeline.job_logs import GROUP_MESSAGE, NOT_STARTED, explain, full_disk, logs_since, refusal
from stair.pipeline.journal import Journal
from stair.pipeline.stage_rules import PROGRESS
from stair.records.progress import duration, read_progress

_DEFAULT_SECONDS = 3.0
_STOPPED = ": stopped by SIG"
"""Part of the last line of a job that was stopped."""
_SUBMITTED = re.compile(r"Job (\S+) has been submitted with SLURM jobid (\d+)(?: \(log: (.*)\))?")
"""A message of Snakemake's Slurm executor; a group's job is named by its last job's digest."""
_TERMINAL_SECONDS, _PLAIN_SECONDS = 0.5, 10.0


@dataclass
class _Job:
    rule: str
    wildcards: dict[str, str]
    log: list[str]
    inputs: list[str]
    started: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.time)
    """Seconds since the epoch, to compare with the times of logs."""

    @property
    def name(self) -> str:
        return " ".join([self.rule, *(str(value) for key, value in self.wildcards.items() if key != "of")])


class LogHandler(LogHandlerBase):
    """Snakemake's log handler for this workflow. Dry runs and other events than jobs look as in Snakemake."""

    def __post_init__(self) -> None:
        self._plain = ColorizingTextHandler(nocolor=self.common_settings.nocolor, stream=sys.stderr)
        self._jobs: dict[int, _Job] = {}
        self._groups: dict[str, list[int]] = {}
        self._cluster_logs: dict[int, list[str]] = {}
        self._group_messages: dict[int, str] = {}
        self._opened_journal: Journal | None = None
        self._counts: dict[str, int] = {}
        self._finished: dict[str, int] = {}
        self._lock = threading.RLock()
        self._started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = ""
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None

    # ---------------------------------------------------------------- the plugin interface

    @property
    def writes_to_stream(self) -> bool:
        return True

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return False

    @property
    def has_formatter(self) -> bool:
        return False

    @property
    def needs_rulegraph(self) -> bool:
        return False

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        """Snakemake's formatter formats the records that are passed on."""
        super().setFormatter(fmt)
        self._plain.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        """Shows one event, or passes it to Snakemake's own handler."""
        event = getattr(record, "event", None)
        if JOB_LIST in os.environ:
            self._list(event, record)
            return
        with self._lock:
            if self.common_settings.dryrun or not self._handles(event, record):
                self._clear()
                self._plain.emit(record)

    def _list(self, event: Any, record: Any) -> None:
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
            self._plain.emit(record)

    def close(self) -> None:
        """Ends the status line."""
        self._stop.set()
        with self._lock:
            self._clear()
        super().close()

    # ---------------------------------------------------------------- events

    def _handles(self, event: Any, record: logging.LogRecord) -> bool:
        """Shows an event of a job; False for events that Snakemake's handler should show."""
        handlers = {
            LogEvent.RUN_INFO: self._run_planned,
            LogEvent.JOB_INFO: self._job_begins,
            LogEvent.GROUP_INFO: self._group_formed,
            LogEvent.JOB_FINISHED: self._job_finished,
            LogEvent.GROUP_ERROR: self._group_failed,
            LogEvent.JOB_ERROR: self._job_failed,
        }
        if (handler := handlers.get(event)) is not None:
            handler(record)
            return True
        if event in (LogEvent.JOB_STARTED, LogEvent.PROGRESS, LogEvent.RESOURCES_INFO, LogEvent.WORKFLOW_STARTED):
            return True
        if submitted := _SUBMITTED.search(record.getMessage()):
            self._submitted(*submitted.groups())
            return True
        if "returned non-zero exit status" in record.getMessage():
            return True  # JOB_ERROR shows it
        # Snakemake's other messages below warnings repeat what is shown here.
        return record.levelno < logging.WARNING and not record.getMessage().startswith("Nothing to be done")

    def _run_planned(self, record: logging.LogRecord) -> None:
        stats = getattr(record, "stats", {})
        self._counts = {rule: count for rule, count in stats.items() if rule != "total"}
        self._started = time.monotonic()
        self._tick()
        self._print_line(f"{sum(self._counts.values())} jobs to do, {self._time_left()}")

    def _job_begins(self, record: logging.LogRecord) -> None:
        log = getattr(record, "log", None) or []
        wildcards = dict(getattr(record, "wildcards", None) or {})
        inputs = [str(file) for file in getattr(record, "input", None) or []]
        started = _Job(record.rule_name, wildcards, list(log), inputs)  # type: ignore[attr-defined]
        self._jobs[record.jobid] = started  # type: ignore[attr-defined]
        if (journal := self._journal()) and _is_work(started):
            journal.started(started.rule, started.wildcards, started.log)

    def _group_formed(self, record: logging.LogRecord) -> None:
        members = list(getattr(record, "jobs", ()))
        self._groups |= {member.uuid(): [other.jobid for other in members] for member in members}

    def _job_finished(self, record: logging.LogRecord) -> None:
        job = self._jobs.pop(getattr(record, "job_id", getattr(record, "jobid", -1)), None)
        if job is None:
            return
        if (journal := self._journal()) and _is_work(job):
            journal.write("finished", job.rule, job.wildcards)
        self._finished[job.rule] = self._finished.get(job.rule, 0) + 1
        if job.rule in self._counts and job.rule != "all" and _is_work(job):
            self._print_line(f"{self._state()} · {job.name} took {duration(time.monotonic() - job.started)}")

    def _group_failed(self, record: logging.LogRecord) -> None:
        """Keeps the cluster's log and message for the errors of the group's jobs, which follow without them."""
        aux = [str(path) for path in getattr(record, "aux_logs", None) or []]
        members = [info["jobid"] for info in getattr(record, "job_error_info", [])]
        self._cluster_logs |= dict.fromkeys(members, aux)
        self._group_messages |= dict.fromkeys(members, getattr(record, GROUP_MESSAGE, ""))

    def _job_failed(self, record: logging.LogRecord) -> None:
        job = self._jobs.pop(getattr(record, "jobid", -1), None)
        logs = [str(path) for path in (getattr(record, "log", None) or (job.log if job else []))]
        name = job.name if job else getattr(record, "rule_name", "a job")
        logs += [path for path in self._cluster_logs.get(getattr(record, "jobid", -1), []) if path not in logs]
        written = logs_since(job.began if job else 0.0, map(Path, logs))
        message = getattr(record, "rule_msg", None) or self._group_messages.get(getattr(record, "jobid", -1), "")
        if refused := refusal(message):  # Snakemake creates the log, and an earlier attempt may have written it
            written = []
        explanation = explain(written)
        reason = explanation.line if explanation else refused or ("no message in its log" if written else NOT_STARTED)
        if logs and "make room" not in reason and (full := full_disk(Path(logs[0]))):
            reason = f"{reason}; {full}"
        if job is not None and (journal := self._journal()):
            event = "stopped" if _STOPPED in reason else "failed"
            journal.write(
                event, job.rule, job.wildcards, logs=[os.path.abspath(path) for path in logs], message=message
            )
        if _STOPPED in reason:
            self._print_line(f"stopped: {name}: {reason.removeprefix('stair: ')}")
        else:
            named = (
                f" (log: {', '.join(map(_from_start, logs))})" if logs and written else ""
            )  # an earlier one's misleads
            self._print_line(f"failed: {name}: {reason}{named}")

    def _submitted(self, job_id: str, number: str, log: str | None) -> None:
        """Records Slurm's number and log of a job, or of a group's jobs."""
        ids = [int(job_id)] if job_id.isdigit() else self._groups.get(job_id, [])
        if journal := self._journal():
            for job in (self._jobs[one] for one in ids if one in self._jobs):
                logs = [os.path.abspath(path) for path in (*job.log, *([log] if log else []))]
                journal.write("submitted", job.rule, job.wildcards, slurm=number, logs=logs)

    def _journal(self) -> Journal | None:
        """The run's journal, in the process that drives the run; a job of a cluster starts a Snakemake too.

        The last events come after the driver has released its lease.
        """
        run = driven_run.current
        if self._opened_journal is None and run is not None and holds_run():
            self._opened_journal = Journal(run.paths)
        return self._opened_journal

    # ---------------------------------------------------------------- progress

    def _weight(self, rule: str) -> float:
        expected = driven_run.current.config.expected_seconds if driven_run.current else {}
        return expected.get(rule, _DEFAULT_SECONDS)

    def _seconds_done(self) -> tuple[float, float]:
        """Expected seconds of the finished work, and of all work."""
        total = sum(count * self._weight(rule) for rule, count in self._counts.items())
        done = sum(min(n, self._counts.get(rule, 0)) * self._weight(rule) for rule, n in self._finished.items())
        for job in self._jobs.values():
            if job.rule in self._counts:
                done += self._weight(job.rule) * self._share(job)
        return done, total

    @staticmethod
    def _share(job: _Job) -> float:
        """The finished share of a running job, from its progress file."""
        name = PROGRESS.get(job.rule)
        if name is None or driven_run.current is None:
            return 0.0
        progress = read_progress(driven_run.current.paths.progress_of(name.format(**job.wildcards)))
        if progress is None:
            return 0.0
        fresh = progress.updated >= time.time() - (time.monotonic() - job.started) - 1
        return progress.share if fresh else 0.0

    def _time_left(self) -> str:
        done, total = self._seconds_done()
        return f"about {duration(seconds_left(done, total, time.monotonic() - self._started))} left"

    def _state(self) -> str:
        done, total = self._seconds_done()
        share = f"{done / total:4.0%}" if total else "100%"
        return f"{share} after {duration(time.monotonic() - self._started)}, {self._time_left()}"

    # ---------------------------------------------------------------- the screen

    def _tick(self) -> None:
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._run, daemon=True)
            self._ticker.start()

    def _run(self) -> None:
        while not self._stop.wait(_TERMINAL_SECONDS if self._terminal else _PLAIN_SECONDS):
            with self._lock:
                running = ", ".join(job.name for job in self._jobs.values())
                if not running:
                    continue
                if self._terminal:
                    self._clear()
                    width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
                    self._shown = f"{self._state()} · {running}"[:width]
                    print(self._shown, end="", file=sys.stderr, flush=True)
                else:
                    self._print_line(f"{self._state()} · running: {running}")

    def _clear(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._shown = ""

    def _print_line(self, line: str) -> None:
        self._clear()
        print(line, file=sys.stderr, flush=True)


def seconds_left(done: float, total: float, elapsed: float) -> float:
    """Seconds left of work whose expected seconds are `total`.

    The estimate starts from the expected pace of two cores, with the weight of a tenth of the work. Without it, the first
    seconds would dominate, in which packages are imported and nothing finishes.
    """
    expected = 0.1 * total
    return (total - done) * (elapsed + expected / min(os.cpu_count() or 1, 2)) / max(done + expected, 1e-9)


def _from_start(log: str) -> str:
    """The path of a log from the folder of the start; Snakemake works in the run's folder."""
    path = Path(log).absolute()
    start = Path(os.environ.get(START, "")).absolute()
    return str(path.relative_to(start)) if path.is_relative_to(start) else str(path)


def _is_work(job: _Job) -> bool:
    """Whether a job runs a command: targets only gather other jobs."""
    return bool(job.log)
