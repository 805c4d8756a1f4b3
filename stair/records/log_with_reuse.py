"""The work log of a stage and the logs of other runs: a record of another run under an equal key is imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stair.records.worklog import WorkLog, WorkLogWriter


class LogWithReuse:
    """Looks a key up in a stage's own logs, then in those of other runs.

    An imported record is appended to the stage's own log, so that sealing needs this run alone.

    Args:
        others: folders of other runs with their logs of this stage, by the run's name.
    """

    def __init__(self, own: WorkLog, others: Mapping[str, Path]) -> None:
        self._own, self._folders = own, others
        self._logs: list[tuple[str, WorkLog]] | None = None
        self._waiting: dict[str, dict[str, Any]] = {}
        self._imported: set[str] = set()
        self._writer: WorkLogWriter | None = None
        self.reused: Counter[str] = Counter()

    def get(self, key: str) -> dict[str, Any] | None:
        """The record of a key, without its key; None without one."""
        record = self._own.get(key)
        if record is not None or not self._folders:
            return record
        if self._logs is None:  # read at the first missing key
            self._logs = [
                (run, WorkLog(folder)) for run, root in self._folders.items() for folder in sorted(root.glob("**/log"))
            ]
        for run, log in self._logs:
            record = log.get(key)
            if record is not None:
                self._import(run, key, record)
                return record
        return None

    @property
    def waiting(self) -> bool:
        """Whether imported records are not written yet."""
        return bool(self._waiting)

    def write_to(self, writer: WorkLogWriter) -> None:
        """Sets the writer of imported records and writes the pending ones."""
        self._writer = writer
        for key, record in self._waiting.items():
            writer.append(key, record)
        self._waiting.clear()

    def _import(self, run: str, key: str, record: dict[str, Any]) -> None:
        if key in self._imported:
            return
        self._imported.add(key)
        self.reused[run] += 1
        if self._writer is None:
            self._waiting[key] = record
        else:
            self._writer.append(key, record)
