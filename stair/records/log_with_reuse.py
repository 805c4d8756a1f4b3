"""The work log of a stage and the logs of other runs: a record of another run under an equal key is imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stair.records.worklog import WorkLog, WorkLogWriter


class LogWithReuse:
    """Looks a key up in a stage's own logs, then in those of other runs.

    An imported record is appended to the stage's own log, so that sealing needs this run alone.

    Args:
        others: folders of logs by the run's name, the most promising first: a folder is read when those before it lack a key.
    """

    def __init__(self, own: WorkLog, others: Mapping[str, Iterable[Path]]) -> None:
        self._own = own
        self._unread = ((run, folder) for run, folders in others.items() for folder in folders)
        self._logs: list[tuple[str, WorkLog]] = []
        self._waiting: dict[str, dict[str, Any]] = {}
        self._imported: set[str] = set()
        self._writer: WorkLogWriter | None = None
        self.reused: Counter[str] = Counter()

    def get(self, key: str) -> dict[str, Any] | None:
        """The record of a key, without its key; None without one."""
        record = self._own.get(key)
        if record is not None:
            return record
        for run, log in self._others():
            record = log.get(key)
            if record is not None:
                self._import(run, key, record)
                return record
        return None

    def _others(self) -> Iterator[tuple[str, WorkLog]]:
        yield from self._logs
        for run, folder in self._unread:
            self._logs.append((run, WorkLog(folder)))
            yield self._logs[-1]

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
