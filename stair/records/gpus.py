"""The GPUs of a job: Snakemake counts the resource `gpu`, but does not assign GPUs to jobs.

A choice of the scheduler or the user (CUDA_VISIBLE_DEVICES names no more GPUs than the job needs) applies. Otherwise a job
uses GPUs whose lock is free. A GPU's lock is a socket bound to an abstract name: one for all users of the machine, without a
file, and the kernel releases it however the job ends.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
_WAIT_SECONDS = 1.0
_DRIVER_FOLDER = Path("/proc/driver/nvidia/gpus")


def visible_gpus() -> list[str]:
    """The GPUs of this process, as CUDA_VISIBLE_DEVICES names them. Does not initialise CUDA, which forks do not survive."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    return [str(number) for number, _ in enumerate(sorted(_DRIVER_FOLDER.glob("*")))]


@contextmanager
def own_gpus(count: int) -> Iterator[list[str]]:
    """Restricts CUDA in this process and its children to `count` GPUs that no other job of the project uses; yields their names.

    Waits, with a message, while too few are free. Has no effect if CUDA_VISIBLE_DEVICES names at most `count`. A program that
    replaces this process (`os.exec`) keeps the GPUs. Enter it before CUDA is used.
    """
    names, before = visible_gpus(), os.environ.get(VISIBLE)
    if count < 1 or not names or (before is not None and len(names) <= count):
        yield names
        return
    count = min(count, len(names))
    with ExitStack() as held:
        mine = _lock(names, count, held)
        os.environ[VISIBLE] = ",".join(mine)
        try:
            yield mine
        finally:
            if before is None:
                del os.environ[VISIBLE]
            else:
                os.environ[VISIBLE] = before


def _lock(names: list[str], count: int, held: ExitStack) -> list[str]:
    """Locks `count` of the GPUs, or none while too few are free: two jobs that each want two never wait for each other."""
    announced = False
    while True:
        with ExitStack() as locks:
            mine: list[str] = []
            for name in names:
                if len(mine) < count and _try_lock(locks.enter_context(socket.socket(socket.AF_UNIX)), name):
                    mine.append(name)
            if len(mine) == count:
                held.enter_context(locks.pop_all())
                return mine
        if not announced:
            print(
                f"waiting for {count} of the GPUs {', '.join(names)}: other jobs use them (set {VISIBLE} to choose yourself)",
                file=sys.stderr,
                flush=True,
            )
            announced = True
        time.sleep(_WAIT_SECONDS)


def _try_lock(lock: socket.socket, name: str) -> bool:
    try:
        lock.bind(f"\0stair-gpu-{name}")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    lock.set_inheritable(True)
    return True
