"""Which of a machine's GPUs a job uses: Snakemake counts the resource `gpu`, and says to no job which one is its own.

Where a scheduler or a user has chosen (CUDA_VISIBLE_DEVICES names no more GPUs than are needed), that holds. Otherwise a job
takes GPUs whose lock is free: a file for each, locked by flock, which the kernel gives back however the job ends.
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
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; asked without CUDA, which forks do not survive."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    return [str(number) for number, _ in enumerate(sorted(_DRIVER_FOLDER.glob("*")))]


@contextmanager
def own_gpus(count: int) -> Iterator[list[str]]:
    """Within it, CUDA shows this process and its children `count` GPUs that no other job of ours uses; yields their names.

    Waits, and says so, while too few are free. Nothing happens where no more than `count` are visible. To be entered before CUDA
    is first used.
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
    told = False
    while True:
        with ExitStack() as taken:
            mine: list[str] = []
            for name in names:
                if len(mine) < count and _take(taken.enter_context(_opened(folder, name))):
                    mine.append(name)
            if len(mine) == count:
                held.enter_context(taken.pop_all())
                return mine
        if not told:
            print(
                f"waiting for {count} of the GPUs {', '.join(names)}: other jobs use them (set {VISIBLE} to choose yourself)",
                file=sys.stderr,
                flush=True,
            )
            told = True
        time.sleep(_WAIT_SECONDS)


def _opened(folder: Path, name: str) -> BinaryIO:
    return open(folder / f"{name.replace('/', '_')}.lock", "ab")


def _take(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
