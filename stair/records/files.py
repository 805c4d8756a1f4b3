"""Files that are whole or absent: written beside, flushed to disk, renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a path beside `path` to write to; on success it is flushed and renamed over `path`, on failure removed.

    A reader sees the old file or the new one, never a part. Works on network file systems: no lock is taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    try:
        yield partial
        flush(partial)
        os.replace(partial, path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None and _is_full(error):
            raise OSError(f"{path} cannot be written ({error}): make room and run the same command again") from error
        raise
    with contextlib.suppress(OSError):  # some file systems refuse to open a folder
        flush(path.parent)


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link, or a copy where the file system has none; whole or not there."""
    with replacing(target) as partial:
        partial.unlink(missing_ok=True)
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)


def _is_full(error: OSError) -> bool:
    """Whether a disk or a quota is full; Arrow's errors say it in words alone."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "errno 28" in str(error).lower()


def partial_path(path: Path) -> Path:
    """Where this process writes what will become `path`."""
    return path.with_name(f".{path.name}.{_HOST}.{os.getpid()}.partial")


_HOST = socket.gethostname().replace(".", "-")
_LEFTOVER = re.compile(r"^\..+\.(?P<host>[^.]+)\.(?P<process>\d+)\.partial(?:\.dead)?$")
_FORGOTTEN_SECONDS = 24 * 3600.0
"""After so long without a change, an unfinished file of another machine is left over."""


def remove_leftovers(folder: Path) -> int:
    """Removes what lies below a folder and a process had begun to write when it died; returns how many files and folders."""
    import psutil  # of the pipeline; everything else here needs Python alone

    removed = 0
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            found = _LEFTOVER.match(name)
            if found is None:
                continue
            path = Path(place, name)
            with contextlib.suppress(OSError):
                if found["host"] == _HOST:
                    left = not psutil.pid_exists(int(found["process"]))
                else:
                    left = time.time() - path.stat().st_mtime > _FORGOTTEN_SECONDS
                if left:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                    removed += 1
    return removed


def flush(path: Path) -> None:
    """Asks the system to put a file's (or a folder's) content on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_mapping(path: Path) -> dict[str, Any]:
    """Reads a JSON file of keys and values.

    Raises:
        ValueError: naming the file, where it is not there, no JSON, or holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold keys and values, not a {type(found).__name__}")
    return found


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole, indented for people."""
    write_text(path, _for_people(value))


def write_json_if_changed(path: Path, value: Any) -> bool:
    """`write_json`, only when the content differs; True when it wrote."""
    return write_text_if_changed(path, _for_people(value))


def _for_people(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_text_if_changed(path: Path, text: str) -> bool:
    """Writes only when the content differs, so that an unchanged file keeps its time; True when it wrote."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    write_text(path, text)
    return True
