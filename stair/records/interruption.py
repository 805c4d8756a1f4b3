"""Stop requests: SIGTERM, Ctrl-C, and SIGUSR1 (Slurm's warning before a time limit) end a command with "run me again".

A command can stop anywhere: its finished work is on disk, and its files are written atomically. Work with long units, such as
the updates of a training, defers the stop to its own safe points. A second signal ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

EXIT_AGAIN = 75
"""The exit code for "run me again": EX_TEMPFAIL of sysexits.h."""

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Interrupted(BaseException):
    """A signal stopped the command; the message names the signal and the kept work."""


_received: int | None = None
_deferring = 0


def listen() -> None:
    """Installs the signal handlers and unblocks pending signals; main thread only. Raises Interrupted for a pending one."""
    global _received, _deferring
    _received, _deferring = None, 0
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, _handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _handle(number: int, _: FrameType | None) -> None:
    global _received
    if _received is not None:
        os._exit(EXIT_AGAIN)
    _received = number
    if _deferring:
        name = signal.Signals(number).name
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            print(
                f"stair: {name}: stopping at the next safe point; once more ends at once", file=sys.stderr, flush=True
            )
        return
    check()


def stop_requested() -> bool:
    """Whether a signal has requested a stop."""
    return _received is not None


def time_limit_nears() -> bool:
    """Whether the signal is Slurm's warning before a time limit."""
    return _received == signal.SIGUSR1


def check(kept: str = "what was finished is kept") -> None:
    """Raises Interrupted if a signal has requested a stop; `kept` is the message's text on the work so far."""
    if _received is not None:
        raise Interrupted(f"stopped by {signal.Signals(_received).name}; {kept}; run the same command again to resume")


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Defers stop requests: the work inside calls `check` at its safe points. Ctrl-C is deferred without `listen`, too.

    Raises:
        Interrupted: at the end of the block, if a signal was received and the work finished.
    """
    global _deferring
    keyboard: Any = None
    if not _deferring and threading.current_thread() is threading.main_thread():
        keyboard = signal.signal(signal.SIGINT, _handle)
    _deferring += 1
    try:
        yield
    finally:
        _deferring -= 1
        if keyboard is not None:
            signal.signal(signal.SIGINT, keyboard)
    if not _deferring:
        check()
