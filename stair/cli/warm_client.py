"""The client of the warm process (warm_process.py), which runs commands of its run.

Imports as little as possible, because each job of a run starts with it.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from types import FrameType

SOCKET = "STAIR_WARM"
"""Environment: the path of the socket."""

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a command passes on to its job."""


def end_with_parent() -> None:
    """Asks Linux to kill this process when its parent dies, however it dies."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


def run_in_warm_process() -> int | None:
    """Runs this command in the warm process, if there is one.

    Returns:
        The exit code, or None without a warm process; the command must then run in this process.
    """
    path = os.environ.get(SOCKET)
    if not path:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:
        return None
    request = json.dumps({"argv": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    files = array.array("i", [0, 1, 2])
    job: int | None = None
    early: list[int] = []

    def pass_on(number: int, _: FrameType | None = None) -> None:
        if job is None:
            early.append(number)
            return
        with suppress(ProcessLookupError):
            os.kill(job, number)

    before = {int(number): signal.signal(number, pass_on) for number in PASSED_ON}
    with connection:
        try:
            connection.sendmsg([struct.pack("!I", len(request))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            connection.sendall(request)
            job = _number(connection)
        except OSError:
            job = None
        if job is None:  # the process ended before the job began
            for number, handler in before.items():
                signal.signal(number, handler)
            for number in early:
                signal.raise_signal(number)
            return None
        for number in early:
            pass_on(number)
        code = _number(connection)
    if code is None:
        print("stair: error: the process of this job has ended; run the workflow again to resume", file=sys.stderr)
        return 1
    return code


def _number(connection: socket.socket) -> int | None:
    """The next number from the warm process; None after it has closed the connection."""
    received = b""
    while len(received) < 4:
        with suppress(ConnectionResetError):
            part = connection.recv(4 - len(received))
            if part:
                received += part
                continue
        return None
    return int(struct.unpack("!i", received)[0])
