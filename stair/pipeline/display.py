"""The display of a run, Snakemake's logger plugin: the share done, the time left, the running jobs and the failed ones."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from stair.config.paths import INPUTS_CHECKED, RUN, START, RunPaths
from stair.config.resolve import load_run
from stair.pipeline.driver import is_driven
from stair.pipeline.job_list import JOB_LIST, list_job
from stair.pipeline.jobs import JOBS, STAGES, job_name
from stair.pipeline.status import failure, progress_table
from stair.pipeline.time_left import Started, TimeLeft
from stair.records.progress import duration

_ENDS = ("Exiting because a job execution failed", "At least one job did not complete successfully.")
"""Snakemake's last messages of a run with failed or stopped jobs, which have lines of their own."""

_DOWNLOADS = ("fetch", "fetch_hub")
"""Rules without a row in JOBS that work; the others are targets."""


class LogHandler(LogHandlerBase):
    """Shows the events of jobs. Dry runs, warnings and other errors look as in Snakemake."""

    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
        self._started = self._shown = time.time()
        self._jobs: dict[int, Started] = {}
        self._failed: dict[int, str] = {}
        self._left_by_rule: Counter[str] = Counter()
        self._time: TimeLeft | None = None
        self._live = Live(console=self._console, get_renderable=self._view, transient=True, refresh_per_second=1)
        self._stopping = False
        if not self.common_settings.dryrun:
            signal.signal(signal.SIGINT, self._stop)

    def _stop(self, *caught: Any) -> None:
        self._stopping = True
        signal.default_int_handler(*caught)

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        handlers = {
            LogEvent.RUN_INFO: self._begin,
            LogEvent.JOB_INFO: self._job_begins,
            LogEvent.JOB_FINISHED: self._job_finished,
            LogEvent.JOB_ERROR: self._job_failed,
        }
        if JOB_LIST in os.environ:
            list_job(record)
        elif event in handlers and not self.common_settings.dryrun:
            handlers[event](record)
        elif self.common_settings.dryrun or self._is_shown(record):
            self._console.print("\n" * (event == LogEvent.JOB_INFO) + self.format(record))

    def _is_shown(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return record.getMessage() == NOTHING_TO_BE_DONE_MSG
        # A failed command raises this exception, and its own event follows.
        exception = getattr(record, "exception", "")
        of_job = bool(self._jobs) and exception == "RuleException"
        # `stair reproduce` names the other process in a line of its own.
        refused = exception == "LockException" and INPUTS_CHECKED in os.environ and is_driven(_paths())
        return not (of_job or refused) and not any(end in record.getMessage() for end in _ENDS)

    def close(self) -> None:
        self._live.stop()
        if self._failed:
            self._console.print(f"failed jobs: {len(self._failed)}, after {duration(time.time() - self._started)}")
            self._failed.clear()  # Snakemake closes its handlers twice
        super().close()

    def _begin(self, record: Any) -> None:
        self._left_by_rule = Counter({rule: count for rule, count in record.stats.items() if _works(rule)})
        self._console.print(f"{self._left_by_rule.total()} jobs to do")

    def _first_job(self) -> TimeLeft:
        """Starts the clock. The run's resolved configuration is on disk only now."""
        paths, self._started, self._shown = _paths(), time.time(), time.time()
        self._time = TimeLeft.of_run(self._left_by_rule, load_run(paths.folder), paths)
        if self._console.is_terminal:
            self._live.start(refresh=True)
        else:
            self._console.print(self._state())
        return self._time

    def _job_begins(self, record: Any) -> None:
        if not _works(record.rule_name):
            return
        rule, now = record.rule_name, time.time()
        name = job_name(rule, dict(record.wildcards or {}))
        if self._failed.pop(record.jobid, None):
            self._console.print(f"tried again: {name}")
        (self._time or self._first_job()).start(rule, now)
        self._jobs[record.jobid] = Started(rule, name, now)

    def _job_finished(self, record: Any) -> None:
        if (job := self._jobs.pop(record.job_id, None)) is None or self._time is None:
            return
        self._left_by_rule[job.rule] -= 1
        self._time.finish(job.rule, job.progress())
        stage = JOBS[job.rule].stage if job.rule in JOBS else ""
        over = bool(stage) and not any(self._left_by_rule[rule] for rule in STAGES[stage])
        if not self._left_by_rule.total():
            self._live.stop()
            self._console.print(self._state())
        elif over or (not self._console.is_terminal and time.time() - self._shown > 30):
            self._shown = time.time()
            self._console.print(self._state() + (f" · {stage} finished" if over else ""))

    def _job_failed(self, record: Any) -> None:
        job = self._jobs.pop(record.jobid, None)
        if self._stopping:
            return
        logs = [Path(log).absolute() for log in record.log or ()]
        said = failure(logs, since=job.began if job else 0.0, message=record.rule_msg or "")
        place = f" (log: {os.path.relpath(logs[0], os.environ.get(START, '.'))})" if logs else ""
        line = f"failed: {job.name if job else record.rule_name}: "
        known = said in self._failed.values() or record.rule_name in _DOWNLOADS  # these write to the screen themselves
        self._console.print(line + ("the same" if known else said) + place)
        self._failed[record.jobid] = said

    def _state(self) -> str:
        """The share of the work that is done, and the time left."""
        elapsed = time.time() - self._started
        if self._time is None or not self._left_by_rule.total():
            return f"100% after {duration(elapsed)}"
        jobs = [(job.rule, job.progress()) for job in list(self._jobs.values())]  # the screen's thread reads here, too
        left = self._time.seconds(jobs, time.time())
        state = f"{min(0.99, self._time.share(jobs)):.0%} after {duration(elapsed)}, "
        return state + ("time left unknown" if left is None else f"about {duration(left)} left")

    def _view(self) -> Group:
        return Group(self._state(), progress_table((job.name, job.progress()) for job in list(self._jobs.values())))


def _paths() -> RunPaths:
    return RunPaths(Path(os.environ[RUN]))


def _works(rule: str) -> bool:
    return rule in JOBS or rule in _DOWNLOADS
