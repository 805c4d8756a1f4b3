"""The work log of a stage with the logs of other runs behind it: what they have under an equal key is copied, not made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stair.records.worklog import WorkLog, WorkLogWriter


class LogWithReuse:
    """Looks a key up in a stage's own logs, then in other runs'.

    A record of another run is appended to the stage's own log when it is used, so that sealing needs this run alone.

    Args:
        own: the stage's logs.
        others: folders of other runs below which their logs of this stage lie, by the run's name.
    """

    def __init__(self, own: WorkLog, others: Mapping[str, Path]) -> None:
        self._own, self._folders = own, others
        self._logs: list[tuple[str, WorkLog]] | None = None
        self._waiting: dict[str, dict[str, Any]] = {}
        self._copied: set[str] = set()
        self._writer: WorkLogWriter | None = None
        self.reused: Counter[str] = Counter()
        """Records that were taken over, by run."""

    def __len__(self) -> int:
        return len(self._own)

    def get(self, key: str) -> dict[str, Any] | None:
        """The record of a key, without its key; None where no run has it."""
        record = self._own.get(key)
        if record is not None or not self._folders:
            return record
        if self._logs is None:  # read when something is missing for the first time
            self._logs = [
                (run, WorkLog(folder)) for run, root in self._folders.items() for folder in sorted(root.glob("**/log"))
            ]
        for run, log in self._logs:
            record = log.get(key)
            if record is not None:
                self._take(run, key, record)
                return record
        return None

    @property
    def waiting(self) -> bool:
        """Whether records of other runs have yet to be written."""
        return bool(self._waiting)

    def write_to(self, writer: WorkLogWriter) -> None:
        """From now on, records of other runs go to this writer; those that wait are written first."""
        self._writer = writer
        for key, record in self._waiting.items():
            writer.append(key, record)
        self._waiting.clear()

    def _take(self, run: str, key: str, record: dict[str, Any]) -> None:
        if key in self._copied:
            return
        self._copied.add(key)
        self.reused[run] += 1
        if self._writer is None:
            self._waiting[key] = record
        else:
            self._writer.append(key, record)
