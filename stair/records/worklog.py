"""The work log: durable records of finished work, from which an output is sealed.

A folder holds the logs of one piece of work. Every writer makes a file of its own (created exclusively, never opened again
for writing), so a dead writer can only leave a torn last line in a file that has no other writer. Readers read all files
of the folder, so the number of shards may change between two attempts. There is no lock and no database: if two processes
generate one key, the first record counts. A later response was generated from an earlier one, whose ids are in its key, so
responses that follow another record are never looked up.

A record is one line: `<CRC-32> <length> <JSON object with "key">`, the checksum and the length in hexadecimal and over the
JSON's bytes. JSON holds no raw newline, so reading can resume at the next line after a damaged one. Token ids, most of a
record, are base64 of little-endian 32-bit integers: they take a quarter of the time to write and a tenth to read.
"""

from __future__ import annotations

import binascii
import os
import time
import weakref
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import orjson

from stair.records.files import matching

_SYNC_SECONDS = 0.5
"""Records reach the operating system at once (a killed process loses none) and the disk within this time."""

_HEADER = 18
"""Bytes of `<8 hex> <8 hex> `."""

_KEY = b'{"key":"'
"""How a record's JSON begins."""

_IDS = "response_ids"
"""The field whose integers are packed."""

_OPEN_FILES = 64
"""Log files that one reader keeps open."""


class WorkLogWriter:
    """Appends records to a new log file; a context manager.

    Args:
        folder: of this piece of work; created if absent.
        writer: the name of this writer (the shard); the attempt's number is added.
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
        payload = orjson.dumps({"key": key, **record, **_packed(record)})
        line = b"%08x %08x " % (zlib.crc32(payload), len(payload)) + payload + b"\n"
        try:
            written = os.write(self._descriptor, line)
            while written < len(line):  # a nearly full disk writes a part: the next write then raises
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            raise OSError(error.errno, f"{self.path} cannot be written: {error.strerror}") from None
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


@dataclass
class LogCounts:
    records: int = 0
    torn: int = 0
    damaged: int = 0
    duplicates: int = 0

    def problems(self) -> str:
        """The counts of faulty lines as text; empty without faults."""
        named = {"torn last lines": self.torn, "damaged lines": self.damaged, "duplicates": self.duplicates}
        return ", ".join(f"{count} {name}" for name, count in named.items() if count)


class WorkLog:
    """The finished records of folders of logs, by key: the first one of each, in the order of the folders and files' names.

    Holds positions only and reads a record on demand.

    Args:
        folder: read at once; `counts` are then its own.
        more: further folders, as those of other runs: each is read when the folders before it lack a key.

    Attributes:
        used: the files from which records have been read.
    """

    def __init__(self, folder: Path, *more: Path) -> None:
        self.folder, self.counts, self.used = folder, LogCounts(), set[Path]()
        self._unread = [*more]
        self._open: OrderedDict[int, int] = OrderedDict()
        weakref.finalize(self, _close, self._open)
        self._files: list[Path] = []
        self._places: dict[str, _Place] = {}
        self._read_folder(folder)

    def _read_folder(self, folder: Path) -> None:
        for path in matching(folder, "*.log"):
            self._files.append(path)
            self._read_file(len(self._files) - 1, path)

    def _read_file(self, number: int, path: Path) -> None:
        offset = 0
        with open(path, "rb") as handle:
            for line in handle:
                payload = _payload(line)
                key = None if payload is None else _key(payload)
                if payload is None or key is None:
                    # Only the last line of a file can have been cut by a dying writer.
                    if line.endswith(b"\n"):
                        self.counts.damaged += 1
                    else:
                        self.counts.torn += 1
                else:
                    self.counts.records += 1
                    place = _Place(number, offset + _HEADER, len(payload))
                    if self._places.setdefault(key, place) is not place:
                        self.counts.duplicates += 1
                offset += len(line)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> Iterable[str]:
        """All keys, in the order of the files."""
        return self._places.keys()

    def get(self, key: str) -> dict[str, Any] | None:
        """The record of a key, without its key; None without one.

        Token ids are an `array`: Python's numbers would need ten times the space, and a sixth of a seal's time.
        """
        while key not in self._places and self._unread:
            self._read_folder(self._unread.pop(0))
        place = self._places.get(key)
        if place is None:
            return None
        self.used.add(self._files[place.file])
        record: dict[str, Any] = orjson.loads(self._payload(place))
        del record["key"]
        if isinstance(record.get(_IDS), str):
            record[_IDS] = array("i", binascii.a2b_base64(record[_IDS]))
        return record

    def _payload(self, place: _Place) -> bytes:
        """The JSON of a record. Files stay open: a log of a hundred thousand records is read a record at a time."""
        descriptor = self._open.get(place.file)
        if descriptor is None:
            if len(self._open) >= _OPEN_FILES:
                os.close(self._open.popitem(last=False)[1])
            descriptor = self._open[place.file] = os.open(self._files[place.file], os.O_RDONLY)
        payload = os.pread(descriptor, place.length, place.offset)
        while len(payload) < place.length:  # one read returns two gigabytes at most
            more = os.pread(descriptor, place.length - len(payload), place.offset + len(payload))
            if not more:
                raise ValueError(f"{self._files[place.file]} has become shorter while it was read; run again")
            payload += more
        return payload

    def items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every (key, record), in the order of the files."""
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


def _packed(record: Mapping[str, Any]) -> dict[str, str]:
    """The token ids of a record in base64; empty if it has none."""
    ids = record.get(_IDS)
    if not isinstance(ids, list | array):
        return {}
    return {_IDS: binascii.b2a_base64(array("i", ids).tobytes(), newline=False).decode()}


def _key(payload: bytes) -> str | None:
    """A record's key, read without its token ids if the key has no escapes; None if the JSON is no record."""
    end = payload.find(b'"', len(_KEY))
    try:
        if payload.startswith(_KEY) and end > 0 and b"\\" not in payload[:end]:
            return payload[len(_KEY) : end].decode()
        key = orjson.loads(payload)["key"]
    except (ValueError, KeyError, TypeError):
        return None
    return key if isinstance(key, str) else None


def _close(descriptors: OrderedDict[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
    descriptors.clear()
