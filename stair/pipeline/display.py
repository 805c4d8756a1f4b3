"""The display of a run, Snakemake's logger plugin: the share done, the time left, the running jobs and the failed ones."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from stair.config.paths import RUN, START, RunPaths
from stair.pipeline.job_list import JOB_LIST, list_job
from stair.pipeline.jobs import JOBS, STAGES, job_name
from stair.pipeline.status import failure, progress_table
from stair.records.progress import ProgressFile, duration, read_progress

_ENDS = ("Exiting because a job execution failed", "At least one job did not complete successfully.")
"""Snakemake's last messages of a run with failed or stopped jobs, which have lines of their own."""


class _Running(NamedTuple):
    rule: str
    name: str
    started: float

    @property
    def progress(self) -> ProgressFile | None:
        """The progress that it has reported since its start."""
        return read_progress(RunPaths(Path(os.environ[RUN])).progress_of(self.name), since=self.started - 1)


class LogHandler(LogHandlerBase):
    """Shows the events of jobs. Dry runs, warnings and other errors look as in Snakemake."""

    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
        self._started = self._shown = time.time()
        self._jobs: dict[int, _Running] = {}
        self._failed: set[int] = set()
        self._total = 0
        self._left_by_rule: Counter[str] = Counter()
        self._seconds_by_rule: dict[str, list[float]] = defaultdict(list)
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
        of_job = bool(self._jobs) and getattr(record, "exception", "") == "RuleException"
        return not of_job and not any(end in record.getMessage() for end in _ENDS)

    def close(self) -> None:
        self._live.stop()
        if self._failed:
            self._console.print(f"{self._state()}; {len(self._failed)} jobs failed")
        super().close()

    def _begin(self, record: Any) -> None:
        self._left_by_rule = Counter({rule: count for rule, count in record.stats.items() if rule != "total"})
        self._started = self._shown = time.time()
        self._total = self._left_by_rule.total()
        self._console.print(f"{self._total} jobs to do")
        if self._console.is_terminal:
            self._live.start(refresh=True)

    def _job_begins(self, record: Any) -> None:
        name = job_name(record.rule_name, dict(record.wildcards or {}))
        if record.jobid in self._failed:
            self._failed.remove(record.jobid)
            self._console.print(f"tried again: {name}")
        self._jobs[record.jobid] = _Running(record.rule_name, name, time.time())

    def _job_finished(self, record: Any) -> None:
        if (job := self._jobs.pop(record.job_id, None)) is None:
            return
        self._left_by_rule[job.rule] -= 1
        self._seconds_by_rule[job.rule].append(time.time() - job.started)
        stage = JOBS[job.rule].stage if job.rule in JOBS else ""
        over = bool(stage) and not any(self._left_by_rule[rule] for rule in STAGES[stage])
        if not self._left_by_rule.total():
            self._live.stop()
            self._console.print(self._state())
        elif not self._console.is_terminal and (over or time.time() - self._shown > 30):
            self._shown = time.time()
            self._console.print(self._state() + (f" · {stage} finished" if over else ""))

    def _job_failed(self, record: Any) -> None:
        job = self._jobs.pop(record.jobid, None) or _Running(record.rule_name, record.rule_name, 0.0)
        if self._stopping:
            return
        self._failed.add(record.jobid)
        logs = [Path(log).absolute() for log in record.log or ()]
        said = failure(logs, since=job.started, message=record.rule_msg or "")
        place = f" (log: {os.path.relpath(logs[0], os.environ.get(START, '.'))})" if logs else ""
        self._console.print(f"failed: {job.name}: {said}{place}")

    def _state(self) -> str:
        """The share of the jobs that are done, and the time that the others take at the pace of those before."""
        elapsed, left = time.time() - self._started, self._left_by_rule.total()
        if not left:
            return f"100% after {duration(elapsed)}"
        known = {rule: sum(seconds) / len(seconds) for rule, seconds in self._seconds_by_rule.items()}
        busy, saved, parts = sum(map(sum, self._seconds_by_rule.values())), 0.0, 0.0
        for job in list(self._jobs.values()):  # the screen's thread reads here, too
            busy += time.time() - job.started
            if (progress := job.progress) and progress.total and progress.fresh:
                pace = progress.seconds / progress.fresh
                known.setdefault(job.rule, pace * progress.total)
                saved, parts = saved + pace * progress.done, parts + progress.done / progress.total
        state = f"{(self._total - left + parts) / self._total:.0%} after {duration(elapsed)}, "
        if not known:
            return f"{state}time left unknown"
        mean = sum(known.values()) / len(known)
        rest = sum(count * known.get(rule, mean) for rule, count in self._left_by_rule.items()) - saved
        # Jobs that report their progress can be long. Without one of a rule, nothing is known of it.
        unknown = any(rule in JOBS and JOBS[rule].progress and rule not in known for rule in +self._left_by_rule)
        left_seconds = max(rest, 1.0) * elapsed / max(busy, 1e-9)
        return f"{state}{'at least' if unknown else 'about'} {duration(left_seconds)} left"

    def _view(self) -> Group:
        return Group(self._state(), progress_table((job.name, job.progress) for job in list(self._jobs.values())))
