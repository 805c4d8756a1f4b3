"""Progress of a job: occasional lines in its log, and a small file for the run's display."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stair.records.files import write_text


def duration(seconds: float) -> str:
    """Seconds for people: 45s, 3m20s, 2h05m."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


_latest: Progress | None = None


def report_stop() -> bool:
    """Marks this process's work as stopped, for readers on other machines. Returns whether it has finished a unit."""
    if _latest is None:
        return False
    with suppress(OSError):
        _latest._write(updated=0.0)
    return _latest.done > _latest._before


def progress_file(folder: Path, job: str) -> Path:
    return folder / f"{job.replace('/', '.')}.json"


class Progress:
    """Counts the work of one job.

    Args:
        folder: of progress files (`work/progress` of the run).
        job: the job's name.
        total: units of work.
        unit: the plural name of a unit.
        done: units finished before this start.
    """

    FILE_SECONDS = 0.5
    LINE_SECONDS = 5.0
    """The time between the first lines; later a fiftieth of the elapsed time, at most a minute."""

    def __init__(self, folder: Path, job: str, total: int, unit: str, done: int = 0) -> None:
        self.job, self.total, self.unit, self.done, self._before = job, total, unit, done, done
        self.path = progress_file(folder, job)
        self._start = time.monotonic()
        self._file_time = self._line_time = 0.0
        self._note = ""
        self._facts: Mapping[str, float] = {}
        self._write()
        global _latest
        _latest = self

    def begin(self) -> None:
        """Starts the clock of the work; loading before it does not count in the estimate of the rest."""
        self._start = time.monotonic()

    def advance(self, units: int = 1, note: str | None = None) -> None:
        """Counts finished units; the line ends with `note` (a rate, a loss), by default the previous one."""
        self.set(self.done + units, self._note if note is None else note)

    def beat(self, note: str, facts: Mapping[str, float]) -> None:
        """Reports that the work is alive, without a finished unit; `facts` are numbers for the progress file."""
        self._facts = facts
        self.set(self.done, note)

    def set(self, done: int, note: str = "") -> None:
        ended = done >= self.total and done > self.done
        self.done, self._note = done, note
        now = time.monotonic()
        if now - self._file_time >= self.FILE_SECONDS or ended:
            with suppress(OSError):  # the work itself reports a fault of the disk
                self._write()
        if now - self._line_time >= max(self.LINE_SECONDS, min((now - self._start) / 50, 60.0)) or ended:
            self._line_time = now
            with suppress(OSError, ValueError):  # the terminal is closed
                print(self.line(), file=sys.stderr, flush=True)

    def line(self) -> str:
        """The state as one line: count, share, elapsed and remaining time."""
        elapsed = time.monotonic() - self._start
        share = self.done / self.total if self.total else 1.0
        fresh = self.done - self._before
        left = (
            f", about {duration(elapsed / fresh * (self.total - self.done))} left"
            if fresh and self.done < self.total
            else ""
        )
        note = f" · {self._note}" if self._note else ""
        return (
            f"{self.job}: {self.done} of {self.total} {self.unit} ({share:.0%}) after {duration(elapsed)}{left}{note}"
        )

    def _write(self, updated: float | None = None) -> None:
        self._file_time = time.monotonic()
        content = ProgressFile(
            job=self.job,
            done=self.done,
            total=self.total,
            unit=self.unit,
            note=self._note,
            fresh=self.done - self._before,
            facts=dict(self._facts),
            seconds=round(time.monotonic() - self._start, 1),
            updated=time.time() if updated is None else updated,
            host=socket.gethostname(),
            process=os.getpid(),
        )
        write_text(self.path, json.dumps(asdict(content)))


@dataclass(frozen=True)
class ProgressFile:
    """The content of a progress file."""

    job: str
    done: int
    total: int
    unit: str
    note: str
    fresh: int
    """Units finished since this start."""
    facts: Mapping[str, Any]
    """Numbers of `Progress.beat`."""
    seconds: float
    """Of the work since this start."""
    updated: float
    host: str
    process: int

    @property
    def seconds_left(self) -> float | None:
        """The estimate at the pace of this start; None before its first finished unit."""
        return self.seconds / self.fresh * (self.total - self.done) if self.fresh else None


def read_progress(path: Path, since: float = 0.0) -> ProgressFile | None:
    """A progress file's content; None if there is none of this time or later that can be read."""
    try:
        found = ProgressFile(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.updated >= since else None
