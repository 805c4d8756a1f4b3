"""Atomic writes: a file is written beside its target, flushed to disk and renamed."""

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
    """Yields a path beside `path` to write to. On success the file is flushed and renamed over `path`, on failure removed.

    A reader sees the old file or the new one, never a part. Network file systems work too, because there is no lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    try:
        with naming(path):
            yield partial
            flush(partial)
            os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some file systems refuse to open a folder
        flush(path.parent)


def matching(folder: Path, pattern: str) -> list[Path]:
    """The paths below a folder that match a glob pattern, sorted. Without the files `._name` that macOS writes beside others."""
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith("._"))


def link_or_copy(source: Path, target: Path) -> None:
    """Makes a hard link, or a copy where the file system has no links; atomic."""
    with replacing(target) as partial:
        partial.unlink(missing_ok=True)
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)


MAKE_ROOM = "make room and run the same command again"
"""The remedy for a full disk."""


def is_full(error: BaseException) -> bool:
    """Whether a disk or a quota is full. Arrow and libraries in Rust have the error number only in their text."""
    numbers = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    written = re.search(r"(?:errno|os error) (\d+)", str(error), flags=re.I)
    return getattr(error, "errno", None) in numbers or (written is not None and int(written[1]) in numbers)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """A full disk inside the context is an OSError that names the file or folder; libraries in Rust do not."""
    try:
        yield
    except Exception as error:
        if is_full(error) and getattr(error, "filename", None) is None and MAKE_ROOM not in str(error):
            raise OSError(f"{path} cannot be written ({error}): {MAKE_ROOM}") from error
        raise


def partial_path(path: Path) -> Path:
    """The path that this process writes before it is renamed to `path`."""
    return path.with_name(f".{path.name}.{_HOST}.{os.getpid()}.partial")


_HOST = socket.gethostname().replace(".", "-")
_LEFTOVER = re.compile(r"^\..+\.(?P<host>[^.]+)\.(?P<process>\d+)\.partial(?:\.dead)?$")
_ABANDONED_SECONDS = 24 * 3600.0
"""An unfinished file of another machine is a leftover after this time without a change."""


def process_exists(process: int) -> bool:
    """Whether a process runs on this machine, also one of another user that the system hides from this one."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def remove_leftovers(folder: Path, *, deep: bool = True) -> None:
    """Removes unfinished files and folders of dead processes from a folder, and (`deep`) from all below."""
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            match = _LEFTOVER.match(name)
            if match is None:
                continue
            path = Path(parent, name)
            with contextlib.suppress(OSError):
                if match["host"] == _HOST:
                    dead = not process_exists(int(match["process"]))
                else:
                    dead = time.time() - path.stat().st_mtime > _ABANDONED_SECONDS
                if dead:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not deep:
            break


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, removed at the end unless the body has renamed it. Removes those of killed processes first.

    Also removes the folders above it that it has made, if they are empty.
    """
    remove_leftovers(path.parent, deep=False)
    folder = partial_path(path)
    made = [parent for parent in folder.parents if not parent.exists()]
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # one has other files
            for parent in made:
                parent.rmdir()


def existing_folder(folder: Path) -> Path:
    """A folder, or the first of its parents that exists: on its disk the folder would be created."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())


def bytes_text(count: int) -> str:
    """A size for people, such as 24.1 MB."""
    size, units = float(count), iter(("B", "KB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MAKE_AGAIN = "restore the file, or delete it and run the command that makes it again"


def read_mapping(path: Path) -> dict[str, Any]:
    """Reads a JSON object. Raises ValueError if the file is absent, is not JSON, or holds no object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}); {_MAKE_AGAIN}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold keys and values, not a {type(value).__name__}; {_MAKE_AGAIN}")
    mapping: dict[str, Any] = value
    return mapping


def write_text(path: Path, text: str) -> None:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, _indented_json(value))


def write_json_if_changed(path: Path, value: Any) -> bool:
    """`write_json` if the content differs; returns whether it wrote."""
    return write_text_if_changed(path, _indented_json(value))


def _indented_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_text_if_changed(path: Path, text: str) -> bool:
    """`write_text` if the content differs, so that an unchanged file keeps its time; returns whether it wrote."""
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    write_text(path, text)
    return True
