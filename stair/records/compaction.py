"""Compaction: the many files of a work log become one, without torn lines and duplicates, and no record is lost.

The new file is written beside the old ones, flushed, read back and renamed; then the old files are removed. A kill in between
leaves records twice, and readers drop duplicates. Records under earlier settings stay, because they may be needed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stair.records.files import replacing
from stair.records.leases import Lease
from stair.records.worklog import WorkLog

LEASE = "compaction"
"""The lease of a compaction; it excludes all other work of the folder."""

_MANY_FILES = 16
_WASTED_SHARE, _WASTED_BYTES = 0.1, 1 << 20


@dataclass(frozen=True)
class Compacted:
    files: int
    """The number of files before it."""
    records: int
    freed: int


def compact(work: Path, *, always: bool = False) -> Compacted | None:
    """Compacts the log of a work folder if it has many files or a tenth of it is waste; `always`: or any waste.

    Returns:
        None if there was nothing to compact.

    Raises:
        HeldError: a process works in the folder.
        ValueError: the log holds two different records of one key.
    """
    folder = work / "log"
    if not any(folder.glob("*.log")):
        return None
    with Lease(work, LEASE, lambda other: True) as lease:
        log = WorkLog(folder)
        files, size, wasted = log.files, log.size, log.size - log.used
        many = len(files) > (1 if always else _MANY_FILES)
        if not many and not (wasted if always else wasted > max(_WASTED_BYTES, _WASTED_SHARE * size)):
            return None
        number = 0
        while (path := folder / f"compacted.{number:03d}.log").exists():
            number += 1
        with replacing(path) as partial:
            with open(partial, "wb") as handle:
                handle.writelines(log.lines())
            written = WorkLog.of_files([partial])
            if list(written.keys()) != list(log.keys()) or written.counts.problems():
                raise OSError(f"{path} could not be written correctly; the log is unchanged")
            lease.check()
        for old in files:
            old.unlink(missing_ok=True)
        return Compacted(len(files), len(log), size - path.stat().st_size)
