"""The server process: started, recognised, watched, ended with the job."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import orjson

from stair.engines.sglang.launch import Launch

_TICK_SECONDS = 0.25
_CHECKS = 5
"""Failed health checks in a row after which a server counts as stalled. A job that was suspended fails one at most."""
_TAIL_LINES, _TAIL_CHARACTERS, _TAIL_BYTES = 12, 300, 50_000
_NOISE = ("usage:", "[-", "^", "~")

_GUARD = """
import os, signal, subprocess, sys, threading

def end_with_the_job():
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)

threading.Thread(target=end_with_the_job, daemon=True).start()
code = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.exit(code if code >= 0 else 128 - code)
"""
"""Runs the server in a process group of its own. The job alone holds the other end of the standard input.

The operating system closes that end when the job ends in any way, killed (-9) too. Then the guard kills the group, so no
process of the server keeps its GPU. SGLang's own parent-death signal is not enough: its processes set it after their imports.
"""


class ServerFailed(OSError):
    """The server ended or did not come up; the message has the end of its log."""


class Unanswered(Exception):
    """The server did not answer a request, but it may answer others."""


class Server:
    """A server that is started at once, and that ends with `stop` or with this process.

    Args:
        log: its output is appended to this file.

    Attributes:
        facts: its report (`/server_info`), once it is ready.
    """

    def __init__(self, launch: Launch, log: Path) -> None:
        self._launch, self._log = launch, log
        self._port = _held_port()
        with _held_port() as inner:  # the server binds it in its own way, so it must be free by then
            inner_port = inner.getsockname()[1]
        port = self._port.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.facts: dict[str, Any] = {}
        self._identity = f"stair-{secrets.token_hex(8)}"
        self._scratch = tempfile.TemporaryDirectory(prefix="stair-server-")
        # No time limit for a response, which may take hours. No connection is kept, so none can have been closed meanwhile.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.Client(timeout=None, limits=limits, trust_env=False)
        self._stopped, self._stalled = threading.Event(), False
        command = launch.command(port, inner_port, self._identity)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as output:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            output.write(f"---- {stamp} {self._identity}: {' '.join(command)}\n")
            output.flush()
            self._begin = output.tell()
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-c", _GUARD, *command],
                env=launch.surroundings(Path(self._scratch.name)),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches the job alone
            )

    @property
    def process(self) -> int:
        """The id of the server's process group."""
        return self._guard.pid

    def wait_until_ready(self, waiting: Callable[[], None]) -> None:
        """Waits until the server answers under its own name, and watches it from then on.

        Args:
            waiting: called several times a second; its exceptions end the wait.

        Raises:
            ServerFailed: it ended, was not ready in time, or another server answers at its address.
        """
        deadline = time.monotonic() + self._launch.start_seconds
        while not self.facts:
            waiting()
            self.check()
            if time.monotonic() > deadline:
                limit = f"{self._launch.start_seconds:.0f} s (sglang.start_seconds)"
                raise ServerFailed(f"SGLang's server was not ready after {limit}{self.tail()}")
            model = self._report("/model_info")
            if model and model.get("weight_version") != self._identity:
                raise ServerFailed(f"another server answers at {self.address}, where SGLang's was started")
            if model and self._healthy(5.0):
                self.facts = self._report("/server_info")
            time.sleep(_TICK_SECONDS)
        threading.Thread(target=self._watch, name="sglang-health", daemon=True).start()

    def check(self, within: float = 0.0) -> None:
        """Raises ServerFailed if the server has ended, or ends within some seconds."""
        with suppress(subprocess.TimeoutExpired):
            code = self._guard.wait(within)
            how = f"ended with exit code {code}"
            if self._stalled:
                how = (
                    f"gave no sign of life for {self._launch.stall_seconds:.0f} s (sglang.stall_seconds) and was ended"
                )
            raise ServerFailed(f"SGLang's server {how}{self.tail()}")

    def generate(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The answer of `/generate`. Threads may call it at the same time.

        Raises:
            Unanswered: the connection broke, or the server failed at the request.
            ValueError: the server rejects the request.
        """
        try:
            answer = self._client.post(
                f"{self.address}/generate", content=orjson.dumps(payload), headers={"Content-Type": "application/json"}
            )
            if answer.status_code == 200:
                content: dict[str, Any] = orjson.loads(answer.content)
                return content
        except (httpx.TransportError, orjson.JSONDecodeError) as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from error
        problem = f"SGLang's server refuses it (status {answer.status_code}): {answer.text[:500]}"
        if answer.status_code in (408, 429) or answer.status_code >= 500:
            raise Unanswered(problem)
        raise ValueError(problem)

    def stop(self) -> None:
        """Ends all processes of the server, stopped ones too."""
        self._stopped.set()
        self._kill()
        self._guard.communicate()
        self._port.close()
        self._scratch.cleanup()

    def tail(self) -> str:
        """The end of the server's log, on one line, without warnings."""
        with open(self._log, "rb") as log:
            log.seek(max(self._begin, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
        told = [line[:_TAIL_CHARACTERS] for line in lines if line and not line.startswith(_NOISE)]
        told = [line for line in told if "warn" not in line.lower()]
        return f"; the end of {self._log}: " + " | ".join(told[-_TAIL_LINES:])

    def _watch(self) -> None:
        """Ends a server that fails some health checks in a row, which together take `stall_seconds`."""
        interval, failed = self._launch.stall_seconds / _CHECKS, 0
        while failed < _CHECKS:
            begun = time.monotonic()
            failed = 0 if self._healthy(interval) else failed + 1
            if self._stopped.wait(max(0.0, begun + interval - time.monotonic())):
                return
        self._stalled = True
        self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._guard.pid, signal.SIGKILL)

    def _healthy(self, seconds: float) -> bool:
        """Whether the server generates: `/health` answers if the scheduler responds, idle or busy."""
        with suppress(httpx.HTTPError):
            return bool(self._client.get(f"{self.address}/health", timeout=seconds).status_code == 200)
        return False

    def _report(self, path: str) -> dict[str, Any]:
        """The server's answer to a question about itself; empty without one."""
        with suppress(httpx.HTTPError, ValueError):
            answer = self._client.get(f"{self.address}{path}", timeout=5.0)
            content = answer.json() if answer.status_code == 200 else None
            return content if isinstance(content, dict) else {}
        return {}


def _held_port() -> socket.socket:
    """A socket that holds a free port. It is bound and does not listen, so the kernel gives the port to no other process.

    A server that binds with SO_REUSEADDR, as SGLang's does, can listen there.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
