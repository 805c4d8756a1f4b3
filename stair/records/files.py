"""Files that are whole or absent: written beside, flushed to disk, renamed."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a path beside `path` to write to; on success it is flushed and renamed over `path`, on failure removed.

    A reader sees the old file or the new one, never a part. Works on network file systems: no lock is taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        flush(partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some file systems refuse to open a folder
        flush(path.parent)


def flush(path: Path) -> None:
    """Asks the system to put a file's (or a folder's) content on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole, indented for people."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text_if_changed(path: Path, text: str) -> bool:
    """Writes only when the content differs, so that an unchanged file keeps its time; True when it wrote."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    write_text(path, text)
    return True
