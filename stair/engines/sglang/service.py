"""Keeps a server running and takes requests through it, in a thread of its own."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2 as httpx
import tenacity

from stair.engines.base import Completion, Request
from stair.engines.sglang.client import Asker, Refused, Retracted, Transient
from stair.engines.sglang.invariance import NOT_COMPARED, Scored, compare
from stair.engines.sglang.launch import Launch
from stair.engines.sglang.server import PortTaken, Server, ServerFailed

_ATTEMPTS = 20
_BACKOFF_SECONDS = (0.5, 30.0)
_STARTS = 3
_PORTS = 5
_TICK_SECONDS = 0.5


@dataclass(frozen=True)
class Patience:
    """How long what may take.

    Args:
        start_seconds: loading a server.
        stall_seconds: without any sign of the scheduler, until a server counts as stalled.
    """

    start_seconds: float = 3600.0
    stall_seconds: float = 300.0


@dataclass(frozen=True)
class Unanswered:
    """A request that the server does not answer; it can still answer others."""

    key: str
    error: Exception


class _Gate:
    """Lets a number of requests through at a time: half as many when the cache ran full, one more when it has not for long."""

    def __init__(self, width: int) -> None:
        self.width = self._most = width
        self._inside = self._good = 0
        self._narrowed = 0.0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._inside < self.width)
            self._inside += 1

    async def __aexit__(self, *_: object) -> None:
        async with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def narrow(self, begun: float) -> bool:
        """Half as many from now on, at least one; not again for a request that had begun before the last time."""
        if begun < self._narrowed:
            return False
        self.width, self._good, self._narrowed = max(1, self.width // 2), 0, time.monotonic()
        return True

    def widen(self) -> None:
        """A response was good; as many as go through at a time, and it is one more."""
        self._good += 1
        if self._good >= self.width and self.width < self._most:
            self.width, self._good = self.width + 1, 0


class Service:
    """A server that is started again when it dies or stalls; what was under way is then asked again.

    Args:
        launch: what to start.
        asker: how to ask.
        patience: when to give up waiting.
        width: requests that are sent at a time.
        log: the servers' output.
        started: told what every server says of itself when it is ready.
        port: the port to try first.
        needed: tokens that the longest response can take in the cache, its prompt included; None: what is asked first.
    """

    def __init__(
        self,
        launch: Launch,
        asker: Asker,
        patience: Patience,
        width: int,
        log: Path,
        started: Callable[[dict[str, Any]], None] | None = None,
        port: int = 0,
        needed: int | None = None,
    ) -> None:
        self._needed = needed
        self._launch, self._asker, self._patience, self._width = launch, asker, patience, width
        self._log, self._started, self._port = log, started, port
        self._results: queue.Queue[Completion | Unanswered | BaseException] = queue.Queue()
        self._left: list[Completion] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sglang", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: Future[None] | None = None
        self._server: Server | None = None
        self._responses, self._last_sign = 0, 0.0
        self.restarts = 0
        """Servers that were started in the place of another."""
        self.asked_again = 0
        """Requests that were sent more than once, for whatever reason."""

    # ---------------------------------------------------------------- the caller's side

    def open(self, request: Request, waiting: Callable[[], None]) -> None:
        """Starts the first server and waits until it can be used; `request` is what its determinism is looked at with.

        `waiting` is called twice a second meanwhile; what it raises ends the wait.

        Raises:
            ServerFailed: it does not come up.
            ValueError: its cache is too small for what is asked, or it is another SGLang.
        """
        self._thread.start()
        ready: Future[None] = Future()
        self._keeper = self._submit(self._keep(request, ready))
        while not ready.done():
            waiting()
            wait([ready], timeout=_TICK_SECONDS)
        ready.result()

    @property
    def is_open(self) -> bool:
        """Whether a server was started."""
        return self._keeper is not None

    @property
    def process(self) -> int | None:
        """The process group of the server that runs now."""
        return self._server.process if self._server is not None else None

    @property
    def address(self) -> str | None:
        """Where the server that runs now answers."""
        return self._server.address if self._server is not None else None

    def put(self, request: Request) -> None:
        """Sends a request; its completion comes out of `get`."""
        self._loop.call_soon_threadsafe(self._begin, request)

    def get(self, waiting: Callable[[], None]) -> Completion | Unanswered:
        """The next response that has ended, with what was seen of its server. Raises what made the service give up.

        `waiting` is called before, and twice a second until one has ended; what it raises ends the wait.
        """
        while True:
            waiting()
            try:
                result = self._results.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(result, BaseException):
                raise result
            return result

    def forget(self) -> list[Completion]:
        """Gives up what is under way; nothing of it comes out of `get` any more. Returns what had ended, once."""
        if self.is_open and self._thread.is_alive():
            self._submit(self._cancel()).result()
        while not self._results.empty():
            result = self._results.get()
            if isinstance(result, Completion):
                self._left.append(result)
        left, self._left = self._left, []
        return left

    def give_up(self) -> None:
        """Like `forget`, which still gives what had ended when it is called next."""
        self._left = self.forget()

    def close(self) -> None:
        """Ends the server and the thread."""
        if not self._thread.is_alive():
            return
        self._submit(self._shut()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---------------------------------------------------------------- in the thread

    def _submit(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _begin(self, request: Request) -> None:
        task = self._loop.create_task(self._serve(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _cancel(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _shut(self) -> None:
        await self._cancel()
        if self._keeper is not None:
            self._keeper.cancel()
            while not self._keeping_ended.is_set():
                await asyncio.sleep(0.01)

    async def _serve(self, request: Request) -> None:
        try:
            async for attempt in tenacity.AsyncRetrying(
                retry=tenacity.retry_if_exception_type((Transient, Retracted)),
                wait=tenacity.wait_exponential_jitter(multiplier=_BACKOFF_SECONDS[0], max=_BACKOFF_SECONDS[1]),
                stop=tenacity.stop_after_attempt(_ATTEMPTS),
                reraise=True,
            ):
                with attempt:
                    self.asked_again += attempt.retry_state.attempt_number > 1
                    completion = await self._attempt(request)
            self._responses += 1
            self._results.put(completion)
        except (Transient, Retracted) as error:
            why = "the server's cache ran full" if isinstance(error, Retracted) else str(error)
            problem = f"request {request.key[:12]} failed {_ATTEMPTS} times, last by {why}"
            self._results.put(Unanswered(request.key, ServerFailed(f"{problem}; see {self._log}")))
        except ValueError as error:
            self._results.put(Unanswered(request.key, error))
        except Exception as error:  # whatever it is, the caller must not wait for ever
            self._results.put(error)

    async def _attempt(self, request: Request) -> Completion:
        async with self._gate:
            await self._up.wait()
            server, invariant, begun = self._server, self._invariant, time.monotonic()
            assert server is not None
            try:
                completion = await self._asker.ask(self._client, server.address, request)
            except Transient:
                self._look.set()
                raise
            except Retracted:
                # The cache holds fewer responses than are under way. One alone always fits, so this ends.
                if self._gate.narrow(begun):
                    self._tell(f"the server's cache ran full; now {self._gate.width} requests at a time")
                raise
            self._gate.widen()
            self._last_sign = time.monotonic()
            return replace(completion, batch_invariant=invariant)

    async def _keep(self, probe: Request, ready: Future[None]) -> None:
        """Starts servers, one after another, as long as they are needed."""
        self._up, self._look, self._keeping_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._gate = _Gate(self._width)
        # No read timeout: a response may take hours, and one that were cut off would be begun anew for ever.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self._width)
        timeout = httpx.Timeout(None, connect=30.0)
        try:
            async with httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False) as self._client:
                await self._keep_up(probe, ready)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if ready.done():
                self._results.put(error)
            else:
                ready.set_exception(error)
        finally:
            self._keeping_ended.set()

    async def _keep_up(self, probe: Request, ready: Future[None]) -> None:
        fruitless = 0
        while True:
            before = self._responses
            self._server = server = await self._start(first=not ready.done())
            # It can stall while it is looked at, too, and no request has a time limit.
            looking = asyncio.create_task(self._look_at(server, probe))
            watching = asyncio.create_task(self._watch(server))
            try:
                await asyncio.wait({looking, watching}, return_when=asyncio.FIRST_COMPLETED)
                why = "failed its first requests"
                if looking.done():
                    try:
                        looking.result()
                        self._up.set()
                        if not ready.done():
                            ready.set_result(None)
                        why = await watching
                    except Transient as error:
                        why += f" ({error})"
                else:
                    why = watching.result()
            finally:
                self._up.clear()
                for task in (looking, watching):
                    task.cancel()
                await asyncio.gather(looking, watching, return_exceptions=True)
                tail = server.tail()
                await server.stop()
            fruitless = fruitless + 1 if self._responses == before else 0
            if fruitless >= _STARTS:
                raise ServerFailed(f"SGLang's server {why}, {_STARTS} times without a response{tail}")
            self.restarts += 1
            self._tell(f"the server {why}; starting another")

    async def _start(self, *, first: bool) -> Server:
        """A server that is ready. The first failure of the very first one is final: it would fail again."""
        failures, ports_in_use, begun = 0, 0, time.monotonic()
        self._tell(f"starting the server; its output goes to {self._log}")
        while True:
            try:
                server = await Server.start(self._launch, self._log, self._patience.start_seconds, self._port)
                break
            except PortTaken as error:
                ports_in_use += 1
                if ports_in_use >= _PORTS:
                    raise
                self._tell(f"{error}; trying another port")
                self._port = 0
            except ServerFailed as error:
                failures += 1
                if first or failures >= _STARTS:
                    raise
                self._tell(f"{error}; trying again")
                await asyncio.sleep(2.0**failures)
        self._tell(f"the server is ready after {time.monotonic() - begun:.0f} s")
        return server

    async def _look_at(self, server: Server, probe: Request) -> None:
        """Holds a new server to what was configured, and observes whether its tokens depend on the batch."""
        facts = server.facts
        if facts.get("version") != self._launch.version:
            raise ValueError(
                f"the server is SGLang {facts.get('version')}, but sglang.version is {self._launch.version}"
            )
        for fact, wanted in self._launch.promised.items():
            if facts.get(fact) != wanted:
                raise ValueError(
                    f"the server says that its {fact} is {facts.get(fact)}, but it was started with {wanted}; look at "
                    "sglang.arguments"
                )
        # The server keeps some of its cache for itself, and cuts responses off where that is too small.
        room, needed = facts.get("max_total_num_tokens"), len(probe.prompt_ids) + self._asker.limit(probe)
        needed = max(needed, self._needed or 0)
        if isinstance(room, int) and room < needed + 2:
            raise ValueError(
                f"the server's key/value cache holds {room} tokens, and one response of this run can need {needed}; give it "
                f"more memory (sglang.memory_fraction, sglang.cache_tokens, sglang.tensor_parallel)"
            )

        async def ask(request: Request) -> Scored:
            return await self._asker.scored(self._client, server.address, request)

        try:
            comparison = await compare(ask, probe)
        except Retracted:
            comparison = NOT_COMPARED
        except (KeyError, TypeError, Refused) as error:
            raise ValueError(
                f"SGLang's server does not answer as it should: {type(error).__name__}: {error}"
            ) from error
        self._invariant = comparison.batch_invariant
        self._tell(str(comparison))
        if self._started is not None:
            self._started(
                {
                    "batch_invariant": comparison.batch_invariant,
                    "same_tokens": comparison.same_tokens,
                    "same_log_probabilities": comparison.same_log_probabilities,
                    "versions": self._launch.versions(),
                    "attention": facts.get("attention_backend"),
                    "sampling": facts.get("sampling_backend"),
                    "deterministic": facts.get("enable_deterministic_inference"),
                    "dtype": facts.get("dtype"),
                    "cache_tokens": room,
                    "ready_seconds": round(time.monotonic() - server.started, 1),
                }
            )

    async def _watch(self, server: Server) -> str:
        """Looks after a server until it is no good any more; says why."""
        stall = self._patience.stall_seconds
        interval = min(5.0, stall / 5)
        patience = max(2.0, stall / 2)
        self._last_sign = time.monotonic()
        while True:
            turn = time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), interval)
            self._look.clear()
            await asyncio.sleep(min(0.3, interval))  # the guard needs a moment to see its child's death
            if not server.alive():
                return "died"
            asked = time.monotonic()
            if await server.healthy(self._client, patience):
                self._last_sign = max(self._last_sign, asked)
            elif time.monotonic() - turn > interval + patience + min(5.0, stall / 2):
                # This process itself stood still (a suspended job): that says nothing of the server.
                self._last_sign = time.monotonic()
            if time.monotonic() - self._last_sign > stall:
                return f"gave no sign of life for {stall:.0f} s"

    def _tell(self, text: str) -> None:
        print(f"SGLang: {text}", file=sys.stderr, flush=True)
