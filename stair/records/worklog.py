"""The work log: finished work, durable record by record, until its output is sealed.

A folder holds the logs of one piece of work. Every writer makes a file of its own (created exclusively, never opened again
for writing), so a dead writer can only leave a torn last line in a file that nobody else writes. Readers take all files
together, so the number of shards may change between two attempts. There is no lock and no database.

A record is one line: `<CRC-32> <length> <JSON object with "key">`, the checksum and the length in hexadecimal and over the
JSON's bytes. JSON holds no raw newline, so reading can resume at the next line after a damaged one.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import orjson

_SYNC_SECONDS = 0.5
"""Records reach the operating system at once (a killed process loses none) and the disk within this time."""

_HEADER = 18
"""Bytes of `<8 hex> <8 hex> `."""


class WorkLogWriter:
    """Appends records to a new log file; use as a context manager.

    Args:
        folder: the folder of this piece of work, made if absent.
        writer: a name for this writer (the shard); the attempt's number is added.
    """

    def __init__(self, folder: Path, writer: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        attempt = 0
        while True:
            self.path = folder / f"{writer}.{attempt:03d}.log"
            try:
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
                break
            except FileExistsError:
                attempt += 1
        self._synced = time.monotonic()

    def append(self, key: str, record: Mapping[str, Any]) -> None:
        """Makes one record durable. `record` holds JSON values; a record of the same key is never written twice by one run."""
        payload = orjson.dumps({"key": key, **record})
        line = b"%08x %08x " % (zlib.crc32(payload), len(payload)) + payload + b"\n"
        written = os.write(self._descriptor, line)
        while written < len(line):  # a nearly full disk takes a part: the next write then says so
            written += os.write(self._descriptor, line[written:])
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            os.fsync(self._descriptor)
            self._synced = time.monotonic()

    def close(self) -> None:
        """Flushes to disk and closes; an empty log is removed."""
        if self._descriptor < 0:
            return
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        if self.path.stat().st_size == 0:
            self.path.unlink()

    def __enter__(self) -> WorkLogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Place(NamedTuple):
    file: int
    offset: int
    length: int
    checksum: int


@dataclass
class LogCounts:
    """What reading a folder of logs met."""

    files: int = 0
    records: int = 0
    torn: int = 0
    damaged: int = 0
    duplicates: int = 0

    def problems(self) -> str:
        """The counts that are not zero and want telling, as text; empty where there is nothing to tell."""
        named = {"torn last lines": self.torn, "damaged lines": self.damaged, "duplicates": self.duplicates}
        return ", ".join(f"{count} {name}" for name, count in named.items() if count)


@dataclass
class WorkLog:
    """The finished records of a folder of logs, by key. Holds places, not contents: reading is on demand.

    Raises:
        ValueError: two records of one key differ.
    """

    folder: Path
    counts: LogCounts = field(default_factory=LogCounts)

    def __post_init__(self) -> None:
        self._files = sorted(self.folder.glob("*.log")) if self.folder.is_dir() else []
        self._places: dict[str, _Place] = {}
        for number, path in enumerate(self._files):
            self._read_file(number, path)

    def _read_file(self, number: int, path: Path) -> None:
        self.counts.files += 1
        offset = 0
        with open(path, "rb") as handle:
            for line in handle:
                payload = _payload(line)
                if payload is None:
                    # Only the last line of a file can have been cut by a dying writer.
                    if line.endswith(b"\n"):
                        self.counts.damaged += 1
                    else:
                        self.counts.torn += 1
                else:
                    place = _Place(number, offset + _HEADER, len(payload), zlib.crc32(payload))
                    self._keep(orjson.loads(payload)["key"], place)
                offset += len(line)

    def _keep(self, key: str, place: _Place) -> None:
        self.counts.records += 1
        before = self._places.setdefault(key, place)
        if before is place:
            return
        self.counts.duplicates += 1
        if (before.length, before.checksum) != (place.length, place.checksum):
            raise ValueError(
                f"two different records of one key ({key[:12]}): {self._files[before.file]} at byte {before.offset} and "
                f"{self._files[place.file]} at byte {place.offset}; move the wrong one's file away and run again"
            )

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> Iterable[str]:
        """All keys, in the order in which they were read."""
        return self._places.keys()

    def get(self, key: str) -> dict[str, Any] | None:
        """The record of a key, without its key; None where there is none."""
        place = self._places.get(key)
        if place is None:
            return None
        with open(self._files[place.file], "rb") as handle:
            handle.seek(place.offset)
            record = orjson.loads(handle.read(place.length))
        del record["key"]
        return record

    def items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every (key, record); reads each file once, in order."""
        for key in self._places:
            record = self.get(key)
            assert record is not None
            yield key, record


def _payload(line: bytes) -> bytes | None:
    """The JSON of a whole, undamaged line, else None."""
    if not line.endswith(b"\n") or len(line) <= _HEADER:
        return None
    try:
        checksum, length = int(line[:8], 16), int(line[9:17], 16)
    except ValueError:
        return None
    payload = line[_HEADER:-1]
    return payload if len(payload) == length and zlib.crc32(payload) == checksum else None
