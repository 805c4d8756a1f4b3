"""The lease of the process that drives a run, and Snakemake's locks of killed drivers.

Snakemake's lock files name neither host nor process. A driver therefore also leases its run (`records/leases.py`).
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from pathlib import Path

from stair.config.paths import RunPaths
from stair.records.leases import Holder, Lease, living, remove_dead

DRIVER = "driver"

_held = False


def hold_run(paths: RunPaths) -> None:
    """Leases a run for this process, until it ends. Raises HeldError if another process drives it."""
    global _held
    lease = Lease(paths.work(), DRIVER, lost=_stop)
    lease.__enter__()
    _held = True
    atexit.register(lease.__exit__, None, None, None)


def _stop() -> None:
    """Stops Snakemake in this process, whose lease another driver has replaced."""
    print("stair: another process drives this run now, because this one slept; this one ends", file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)


def holds_run() -> bool:
    return _held


def forget_killed_driver(paths: RunPaths) -> None:
    """Removes the lease of a killed driver."""
    path = lease_file(paths)
    if path.exists() and living(path) is None:
        remove_dead(path)


def run_holder(paths: RunPaths) -> Holder | None:
    """The living process that holds a run's lease, on any machine; None without one."""
    return living(lease_file(paths))


def lease_file(paths: RunPaths) -> Path:
    return paths.work() / f".{DRIVER}.lease"


def stale_locks(paths: RunPaths) -> list[Path]:
    """Snakemake's locks of a run that no process drives."""
    folder = paths.folder / ".snakemake" / "locks"
    locks = sorted(folder.iterdir()) if folder.is_dir() else []
    return locks if locks and run_holder(paths) is None else []
