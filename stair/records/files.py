"""Atomic writes: a file is written beside its target, flushed to disk and renamed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yields a path beside `path` to write to. On success the file is flushed and renamed over `path`, on failure removed.

    Without `durable` it is not flushed: a loss of power can lose the file, the end of the process cannot.

    A reader sees the old file or the new one, never a part. Two processes may write one file: each writes beside it under a
    name of its own. Network file systems work too, because there is no lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    try:
        yield partial
        if durable:
            flush(partial)
        os.replace(partial, path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a full disk is an error of a write, which names no file
        raise
    if durable:
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


def partial_path(path: Path) -> Path:
    """The path that this process writes before it is renamed to `path`."""
    return path.with_name(f".{path.name}.{_HOST}.{os.getpid()}.partial")


_HOST = socket.gethostname().replace(".", "-")


def remove_unfinished(folder: Path) -> None:
    """Removes the unfinished files and folders of killed processes. Nothing may work in the folder meanwhile."""
    for path in [*folder.rglob(".*.partial")]:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, removed at the end, with the parents that were made for it, unless something is in them."""
    folder, existing = partial_path(path), existing_folder(path.parent)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for parent in folder.parents:
            if parent == existing:
                break
            with contextlib.suppress(OSError):
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
