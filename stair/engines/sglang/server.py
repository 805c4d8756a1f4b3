"""One server: a child process with a guard, started, recognised, looked after, ended."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx

from stair.engines.sglang.launch import HeldPort, Launch

_GUARD = Path(__file__).with_name("guard.py")
_LOOK_SECONDS = 0.25
_GUARD_SECONDS = 10.0
_TAIL_LINES = 12
_TAIL_CHARACTERS = 300
"""Of a line."""
_TAKEN = "address already in use"
_WARNING = re.compile(r"\bwarn(?:ing|ings\.warn)?\b", re.IGNORECASE)


class ServerFailed(OSError):
    """A server did not come up; the message has the end of its log."""


class PortTaken(ServerFailed):
    """Somebody else listens where the server was to listen."""


class Server:
    """A running server. Make one with `Server.start`.

    Attributes:
        address: where it answers.
        facts: what it says of itself (`/server_info`).
        started: when it was ready, in `time.monotonic` seconds.
    """

    def __init__(self, launch: Launch, log: Path, port: HeldPort) -> None:
        self.address = f"http://127.0.0.1:{port.number}"
        self.identity = f"stair-{secrets.token_hex(8)}"
        self.facts: dict[str, Any] = {}
        self.started = 0.0
        self._launch, self._log, self._port, self._inner_port = launch, log, port, HeldPort()
        log.parent.mkdir(parents=True, exist_ok=True)
        lifeline, self._lifeline = os.pipe()
        # The server binds the inner port by means of its own, which may not share it.
        self._inner_port.release()
        command = launch.command(port.number, self._inner_port.number, self.identity)
        with open(log, "a", encoding="utf-8") as output:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            output.write(f"---- {stamp} {self.identity}: {' '.join(command)}\n")
            output.flush()
            self._begin = output.tell()
            try:
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", str(_GUARD), str(lifeline), *command],
                    env=launch.surroundings(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[lifeline],
                    start_new_session=True,
                )
            except BaseException:
                os.close(self._lifeline)
                port.release()
                raise
            finally:
                os.close(lifeline)

    @classmethod
    async def start(cls, launch: Launch, log: Path, seconds: float, port: int = 0) -> Server:
        """Starts a server and waits until it answers as itself.

        Args:
            launch: what to start.
            log: the server's output is appended to this file.
            seconds: how long loading may take.
            port: the port to try first.

        Raises:
            PortTaken: somebody else answers there, or listened first.
            ServerFailed: it ended, or was not ready in time.
        """
        server = cls(launch, log, HeldPort(port))
        try:
            await server._ready(seconds)
        except BaseException:
            await server.stop()
            raise
        server.started = time.monotonic()
        return server

    @property
    def process(self) -> int:
        """The guard's process id, which is the group's."""
        return self._guard.pid

    def alive(self) -> bool:
        """Whether the process is there."""
        return self._guard.poll() is None

    async def healthy(self, client: httpx.AsyncClient, seconds: float) -> bool:
        """Whether it generates: SGLang answers when its scheduler has given a sign, idle or busy."""
        try:
            answer = await client.get(f"{self.address}/health", timeout=seconds)
        except httpx.HTTPError:
            return False
        return bool(answer.status_code == 200)

    async def stop(self) -> None:
        """Ends the server and all processes of its family, stopped ones too.

        The guard does it when the lifeline closes; it gives the server a moment to leave in good order.
        """
        with suppress(OSError):
            os.close(self._lifeline)
        self._lifeline = -1
        with suppress(ProcessLookupError):
            os.killpg(self._guard.pid, signal.SIGCONT)
        deadline = time.monotonic() + _GUARD_SECONDS
        while self._guard.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        if self._guard.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait()
        self._port.release()

    async def _ready(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
            while True:
                if not self.alive():
                    kind = PortTaken if _TAKEN in self._output().lower() else ServerFailed
                    raise kind(f"SGLang's server ended with {self._guard.returncode} while it started{self.tail()}")
                if _TAKEN in self._output().lower():  # it may stay, and ask who has its port whether that is itself
                    raise PortTaken(f"somebody took {self.address} while SGLang's server loaded")
                if time.monotonic() > deadline:
                    raise ServerFailed(f"SGLang's server was not ready after {seconds:.0f} s{self.tail()}")
                if await self._answers_as_itself(client) and await self.healthy(client, 30.0):
                    with suppress(httpx.HTTPError, ValueError, TypeError):  # it is asked again
                        self.facts = dict((await client.get(f"{self.address}/server_info")).json())
                        return
                await asyncio.sleep(_LOOK_SECONDS)

    async def _answers_as_itself(self, client: httpx.AsyncClient) -> bool:
        """Whether this very server answers; another's answer at this port must not be taken for it."""
        try:
            answer = await client.get(f"{self.address}/model_info")
            content = answer.json() if answer.status_code == 200 else {}
        except (httpx.HTTPError, ValueError):
            return False
        identity = content.get("weight_version") if isinstance(content, dict) else None
        if identity == self.identity:
            return True
        if answer.status_code == 200:
            raise PortTaken(f"another server answers at {self.address}")
        return False

    def _output(self) -> str:
        with open(self._log, "rb") as handle:
            handle.seek(self._begin)
            return handle.read().decode(errors="replace")

    def tail(self) -> str:
        """The end of the server's log, on one line."""
        lines = [line.strip() for line in self._output().splitlines()]
        tail = [
            line[:_TAIL_CHARACTERS]
            for line in lines
            if line.strip("^~ ") and not line.startswith(("usage:", "[-")) and not _WARNING.search(line)
        ]
        return f"; the end of {self._log}: " + " | ".join(tail[-_TAIL_LINES:])
