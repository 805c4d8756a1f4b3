"""Progress of a job: a line in its log now and then, and a small file that the run's display reads."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from stair.records.files import replacing


def duration(seconds: float) -> str:
    """Seconds as a person says them: 45s, 3m20s, 2h05m."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


class Progress:
    """Counts the work of one job.

    Args:
        folder: where progress files lie (`work/progress` of the run).
        job: the job's name; slashes become dots in the file's name.
        total: units of work in all.
        unit: what a unit is called, in the plural.
        done: units that were finished before this start.
    """

    FILE_SECONDS = 0.5
    LINE_SECONDS = 5.0
    """Between two lines at first; as a job grows long, a fiftieth of its time so far, a minute at most."""

    def __init__(self, folder: Path, job: str, total: int, unit: str, done: int = 0) -> None:
        self.job, self.total, self.unit, self.done, self._before = job, total, unit, done, done
        self.path = folder / f"{job.replace('/', '.')}.json"
        self._start = time.monotonic()
        self._filed = self._told = 0.0
        self._note = ""
        self._facts: Mapping[str, float] = {}
        self._write()

    def begin(self) -> None:
        """The work begins now: the time before it, in which something was loaded, is no measure of what is left."""
        self._start = time.monotonic()

    def advance(self, units: int = 1, note: str | None = None) -> None:
        """Counts finished units; `note` (a rate, a loss) stands at the end of the line, the last one where none is given."""
        self.set(self.done + units, self._note if note is None else note)

    def beat(self, note: str, facts: Mapping[str, float]) -> None:
        """Work goes on, whether or not a unit has been finished; `facts` are numbers for the progress file."""
        self._facts = facts
        self.set(self.done, note)

    def set(self, done: int, note: str = "") -> None:
        """Sets the count of finished units."""
        ended = done >= self.total and done > self.done
        self.done, self._note = done, note
        now = time.monotonic()
        if now - self._filed >= self.FILE_SECONDS or ended:
            with suppress(OSError):  # the work itself says what is wrong with the disk
                self._write()
        if now - self._told >= max(self.LINE_SECONDS, min((now - self._start) / 50, 60.0)) or ended:
            self._told = now
            with suppress(OSError, ValueError):  # nobody listens any more
                print(self.line(), file=sys.stderr, flush=True)

    def line(self) -> str:
        """The state as one line: count, share, time so far, time to come."""
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

    def _write(self) -> None:
        self._filed = time.monotonic()
        with replacing(self.path) as partial:
            partial.write_text(
                json.dumps(
                    {
                        "job": self.job,
                        "done": self.done,
                        "total": self.total,
                        "unit": self.unit,
                        "note": self._note,
                        "fresh": self.done - self._before,
                        "facts": dict(self._facts),
                        "seconds": round(time.monotonic() - self._start, 1),
                        "updated": time.time(),
                        "process": os.getpid(),
                    }
                )
            )
