"""The server process: started, asked, ended with the job."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import orjson

from stair.engines.sglang.launch import ServerLaunch
from stair.records.interruption import end_with_parent

_TICK_SECONDS = 0.25
_TAIL_LINES, _TAIL_CHARACTERS, _TAIL_BYTES = 12, 200, 20_000


class ServerFailed(OSError):
    """The server ended or did not come up; the message has the end of its log."""


class Server:
    """A server that is started at once, and that ends with `stop` or with this process.

    Its processes form a group of their own, which `stop` kills. If this process is killed, the system kills the server, and
    SGLang's other processes end with it. SGLang's own watchdog ends a server whose batch makes no progress.

    Args:
        log: its output is appended to this file.

    Attributes:
        facts: its report (`/server_info`), once it is ready.
    """

    def __init__(self, launch: ServerLaunch, log: Path) -> None:
        self._launch, self._log = launch, log
        port, inner_port = _free_ports()
        self.address = f"http://127.0.0.1:{port}"
        self.facts: dict[str, Any] = {}
        self._scratch = tempfile.TemporaryDirectory(prefix="stair-server-")
        # No time limit for a response, which may take hours. No connection is kept, so none can have been closed meanwhile.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.Client(timeout=None, limits=limits, trust_env=False)
        command = launch.command(port, inner_port)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as output:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            output.write(f"---- {stamp} {' '.join(command)}; {launch.versions()}\n")
            output.flush()
            self.process = subprocess.Popen(
                command,
                env=launch.surroundings(Path(self._scratch.name)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches the job alone
                preexec_fn=end_with_parent,
            )

    def wait_until_ready(self, waiting: Callable[[], None]) -> None:
        """Waits until the server answers.

        Args:
            waiting: called several times a second; its exceptions end the wait.

        Raises:
            ServerFailed: it ended, or was not ready in time.
        """
        seconds = self._launch.settings.start_seconds
        deadline = time.monotonic() + seconds
        while not self.facts:
            waiting()
            self.check()
            if time.monotonic() > deadline:
                limit = f"{seconds:.0f} s (sglang.start_seconds)"
                raise ServerFailed(f"SGLang's server was not ready after {limit}{self._tail()}")
            with suppress(httpx.HTTPError):
                if self._client.get(f"{self.address}/health", timeout=5.0).status_code == 200:
                    self.facts = self._client.get(f"{self.address}/server_info", timeout=5.0).json()
            time.sleep(_TICK_SECONDS)

    def check(self, within: float = 0.0) -> None:
        """Raises ServerFailed if the server has ended, or ends within some seconds."""
        with suppress(subprocess.TimeoutExpired):
            raise ServerFailed(f"SGLang's server ended with exit code {self.process.wait(within)}{self._tail()}")

    def generate(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The answer of `/generate`. Threads may call it at the same time.

        Raises ValueError if the server rejects the request or fails at it, or the connection breaks.
        """
        try:
            answer = self._client.post(
                f"{self.address}/generate", content=orjson.dumps(payload), headers={"Content-Type": "application/json"}
            )
            if answer.status_code == 200:
                content: dict[str, Any] = orjson.loads(answer.content)
                return content
        except (httpx.TransportError, orjson.JSONDecodeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        raise ValueError(f"SGLang's server refuses it (status {answer.status_code}): {answer.text[:500]}")

    def stop(self) -> None:
        """Ends all processes of the server."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._scratch.cleanup()

    def _tail(self) -> str:
        """The end of the server's log, on one line."""
        lines = self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").split("\n")
        told = [line.strip()[:_TAIL_CHARACTERS] for line in lines if line.strip()]
        return f"; the end of {self._log}: " + " | ".join(told[-_TAIL_LINES:])


def _free_ports() -> tuple[int, int]:
    """Two ports that no process uses now. A server that loses its port to another process ends with an error."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
