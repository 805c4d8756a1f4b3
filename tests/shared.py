"""What tests of several files use and nobody changes: one worker makes it, and the others wait for it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

FOLDERS: list[Path] = []
"""The folder of this test run, the same for all workers (tests/conftest.py)."""


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` has filled."""
    (place,) = FOLDERS
    folder, made = place / name, place / f"{name}.made"
    with open(place / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_file():
            folder.mkdir(exist_ok=True)  # another worker may have failed in it
            make(folder)
            made.touch()
    return folder
