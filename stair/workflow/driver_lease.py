"""The lease of the process that drives a run, and Snakemake's locks of killed drivers.

Snakemake's lock files name neither host nor process. A driver therefore also leases its run (`jobs.leases`). On this machine
the process shows whether the lease is alive; on another machine, the lease's renewal does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

from stair.config.paths import RunPaths
from stair.jobs.leases import Holder, Lease, living, remove_dead

DRIVER = "driver"
"""The name of a driver's lease."""

_held: list[Lease] = []


def hold_run(paths: RunPaths) -> None:
    """Leases a run for this process, until it ends.

    Raises:
        HeldError: another process drives it.
    """
    lease = Lease(paths.work(), DRIVER)
    lease.__enter__()  # there is no block to hold it in: it ends with the process
    _held.append(lease)


def holds_run() -> bool:
    """Whether this process drives a run."""
    return bool(_held)


def release_run() -> None:
    """Releases the leases of this process."""
    while _held:
        _held.pop().__exit__(None, None, None)


def forget_killed_driver(paths: RunPaths) -> None:
    """Removes the lease of a killed driver; the lease of a living driver stays."""
    path = lease_file(paths)
    if path.exists() and living(path) is None:
        remove_dead(path)


def run_holder(paths: RunPaths) -> Holder | None:
    """The living process that holds a run's lease, on any machine; None without one."""
    return living(lease_file(paths))


def lease_file(paths: RunPaths) -> Path:
    """The file of the lease of the process that drives a run."""
    return paths.work() / f".{DRIVER}.lease"


def driver_at_work(results: Path) -> str | None:
    """A description of the process that drives a run in the current folder; None without one."""
    folder = Path.cwd()
    own_processes = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        words = process.info["cmdline"] or []
        if process.info["pid"] in own_processes or process.info["cwd"] != str(folder):
            continue
        # A job of a cluster runs Snakemake, too, and may end a moment after its driver.
        if any(Path(word).name == "snakemake" for word in words[:3]) and "--target-jobs" not in words:
            return f"process {process.info['pid']}"
    for path in sorted(results.glob(f"*/work/.{DRIVER}.lease")):
        holder = living(path)
        if holder is not None and not (holder.process in own_processes and holder.runs()):
            return f"process {holder.process} on {holder.host}, since {holder.since}"
    return None


def stale_locks(results: Path) -> list[Path]:
    """Snakemake's locks in the current folder; none while a process drives a run."""
    folder = Path(".snakemake") / "locks"
    locks = sorted(folder.iterdir()) if folder.is_dir() else []
    return locks if locks and driver_at_work(results) is None else []


def hint_at_stale_locks(results: Path) -> None:
    """Prints the remedy for the locks of a killed run, before Snakemake refuses them."""
    if stale_locks(results):
        print(
            "The previous run was interrupted and its lock remains. Resume with `stair reproduce --target <stage>`, which "
            "removes the lock, or run `snakemake --unlock` once.",
            file=sys.stderr,
        )
