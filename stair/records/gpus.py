"""The GPUs of a job: Snakemake counts the resource `gpu`, but does not assign GPUs to jobs.

A choice of the scheduler or the user (CUDA_VISIBLE_DEVICES names no more GPUs than the job needs) applies. Otherwise a job
uses GPUs whose lock is free. Each GPU has a file locked by flock, which the kernel releases however the job ends.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

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

    Waits, with a message, while too few are free. Has no effect if at most `count` are visible. Enter it before CUDA is used.
    """
    names = visible_gpus()
    if count < 1 or len(names) <= count:
        yield names
        return
    before = os.environ.get(VISIBLE)
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
    folder = Path(tempfile.gettempdir()) / f"stair-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    announced = False
    while True:
        with ExitStack() as locks:
            mine: list[str] = []
            for name in names:
                file = folder / f"{name.replace('/', '_')}.lock"
                if len(mine) < count and _try_lock(locks.enter_context(open(file, "ab"))):
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


def _try_lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
