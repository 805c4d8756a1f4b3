"""Being asked to stop: SIGTERM, Ctrl-C, and SIGUSR1 as Slurm's warning before a time limit, end a command with "run me again".

A command stops where it stands: what it has finished is on disk already, and what it writes is whole or absent. Work whose
unit is long, such as a training's update, defers the stop to its own safe points. A second signal ends the process at once.
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
"""The exit code that means "run me again": EX_TEMPFAIL of sysexits.h."""

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Interrupted(BaseException):
    """The command was asked to stop; the message says by what, and what is kept."""


_asked: int | None = None
_deferring = 0


def listen() -> None:
    """Takes the signals over for this process, one that waits too; in another thread than the main one nothing happens.

    Raises:
        Interrupted: one was waiting.
    """
    global _asked, _deferring
    _asked, _deferring = None, 0
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, _take)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _take(number: int, _: FrameType | None) -> None:
    global _asked
    if _asked is not None:
        os._exit(EXIT_AGAIN)
    _asked = number
    if _deferring:
        name = signal.Signals(number).name
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            print(
                f"stair: {name}: stopping at the next safe point; once more ends at once", file=sys.stderr, flush=True
            )
        return
    check()


def stop_requested() -> bool:
    """Whether a signal has asked to stop."""
    return _asked is not None


def check(kept: str = "what was finished is kept") -> None:
    """Stops here when a signal has asked for it.

    Args:
        kept: what the message says of the work so far.

    Raises:
        Interrupted: a signal has come.
    """
    if _asked is not None:
        raise Interrupted(f"stopped by {signal.Signals(_asked).name}; {kept}; run the same command again to go on")


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Within it a signal only leaves a mark: the work calls `check` where it can stop, and does what it must before.

    Ctrl-C (SIGINT) is such a signal within it where nobody `listen`s, too.

    Raises:
        Interrupted: a signal has come and the work went on to its end; raised when the block is left.
    """
    global _deferring
    keyboard: Any = None
    if not _deferring and threading.current_thread() is threading.main_thread():
        keyboard = signal.signal(signal.SIGINT, _take)
    _deferring += 1
    try:
        yield
    finally:
        _deferring -= 1
        if keyboard is not None:
            signal.signal(signal.SIGINT, keyboard)
    if not _deferring:
        check()
