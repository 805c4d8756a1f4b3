"""Stop requests: SIGTERM, Ctrl-C, and SIGUSR1 (Slurm's warning before a time limit) end a command with "run me again".

A command can stop anywhere: every finished response, batch and update is durable, and files are written atomically.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_AGAIN = 75
"""The exit code for "run me again": EX_TEMPFAIL of sysexits.h."""

_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Stopped(SystemExit):
    """A stop request, raised wherever the main thread is."""

    def __init__(self, number: int) -> None:
        super().__init__(EXIT_AGAIN)
        self.signal = signal.Signals(number)


@contextmanager
def stoppable() -> Iterator[None]:
    """Within it, a stop request raises Stopped, whose line is printed at the end. A second request ends the process at once."""
    for number in _SIGNALS:
        signal.signal(number, _stop)
    try:
        yield
    except Stopped as stop:
        said = f"stair: stopped by {stop.signal.name}; what was finished is kept; run the same command again to resume"
        print(said, file=sys.stderr, flush=True)
        progress = sys.modules.get("stair.records.progress")
        finished = progress is not None and progress.report_stop()
        if stop.signal == signal.SIGUSR1 and "SLURM_JOB_ID" in os.environ and finished:
            # The job keeps its number, so the driver waits for it and counts no failure. One without progress fails.
            subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=False)
        raise


def _stop(number: int, _: FrameType | None) -> None:
    end_at_stop()
    raise Stopped(number)


def end_at_stop() -> None:
    """From now on, a stop request ends the process at once, without its last line and without waiting for threads."""
    for each in _SIGNALS:
        signal.signal(each, lambda *_: os._exit(EXIT_AGAIN))


PARENT = "STAIR_PARENT"
"""Environment: the process that has started the job's shell."""


def end_with_driver() -> None:
    """Stops this job when the Snakemake that has started it ends, so that a killed run leaves nothing behind."""
    end_with_parent(signal.SIGTERM)
    if os.environ.pop(PARENT, str(os.getppid())) != str(os.getppid()):  # it had ended before
        raise SystemExit(EXIT_AGAIN)


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Has the system send this process a signal when the thread that has started it ends. Linux only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, number)  # 1 is PR_SET_PDEATHSIG
