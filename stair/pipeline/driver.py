"""The process that drives a run. Snakemake's lock keeps a second one out; `work/driver.pid` says whose lock it is."""

from __future__ import annotations

import atexit
import os
import socket
import sys
from pathlib import Path
from typing import NamedTuple

import psutil

from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError
from stair.records.files import write_text


class Driver(NamedTuple):
    host: str
    process: int


def record_driver(paths: RunPaths) -> None:
    """Records this process, which has Snakemake's lock, until it ends."""
    path = paths.driver.absolute()
    write_text(path, f"{socket.gethostname()}:{os.getpid()}\n")
    atexit.register(path.unlink, missing_ok=True)


def is_driven(paths: RunPaths) -> bool:
    """Whether a process, on any machine, may drive a run: it is locked, and its driver is not known to have ended."""
    driver = _driver(paths)
    return bool(_locks(paths)) and (driver is None or not has_ended(*driver))


def refuse_second_driver(paths: RunPaths) -> None:
    """Raises ConfigError if another process may drive a run."""
    if is_driven(paths):
        driver = _driver(paths)
        who = "" if driver is None else f" (process {driver.process} on {driver.host})"
        raise ConfigError(
            f"another process drives the run in {paths.folder}{who}; wait for it or stop it (if it is surely gone, delete "
            f"{_lock_folder(paths)})"
        )


def unlock(paths: RunPaths) -> None:
    """Removes the lock of a driver that was killed on this machine. Raises ConfigError if another process may drive the run."""
    refuse_second_driver(paths)
    if locks := _locks(paths):
        try:
            paths.driver.unlink()  # of two starts at once, this lets one alone remove the lock
        except FileNotFoundError:
            refuse_second_driver(paths)
            return
        for lock in locks:
            lock.unlink(missing_ok=True)
        print("The previous run was interrupted; resuming from its finished work.", file=sys.stderr)


def _lock_folder(paths: RunPaths) -> Path:
    return paths.folder / ".snakemake" / "locks"


def _locks(paths: RunPaths) -> list[Path]:
    return [*_lock_folder(paths).glob("*.lock")]


def _driver(paths: RunPaths) -> Driver | None:
    try:
        host, _, process = paths.driver.read_text(encoding="utf-8").strip().rpartition(":")
        return Driver(host, int(process))
    except (OSError, ValueError):
        return None


def has_ended(host: str, process: int) -> bool:
    """Whether a process of this machine has ended. One that this user cannot see has not, nor one of another machine."""
    if host != socket.gethostname():
        return False
    try:
        os.kill(process, 0)
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except (ProcessLookupError, OverflowError):
        return True
    except (PermissionError, psutil.Error):
        return False
