"""The SGLang engine: requests to a server of its own, completions in the order in which they end."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from stair.core import EngineIdentity
from stair.engines.base import Completion, Reconstruction, Request, Usage
from stair.engines.sglang.client import Asker, Retracted
from stair.engines.sglang.invariance import NOT_COMPARED, TOGETHER, Comparison, Scored, compare
from stair.engines.sglang.launch import Launch
from stair.engines.sglang.server import Server, ServerFailed, Unanswered
from stair.engines.sglang.supported import check_architecture, check_request
from stair.models.architecture import describe
from stair.records.files import read_mapping

if TYPE_CHECKING:
    from stair.method import Segment

_TICK_SECONDS = 0.5
_DEATH_SECONDS = 5.0
"""An answer that a dying server breaks off precedes the end of its process by less."""

Answer = TypeVar("Answer")
Parse = Callable[[Request, dict[str, Any]], Answer]


class SGLangEngine:
    """Generates by a server that starts with the first request and ends with `close` or with this process.

    Each running request has a thread that waits for its answer. A server that dies or stalls ends the run: the work log has
    the finished responses, so the same job resumes with a new server.

    Args:
        tokens: the number of the tokenizer's tokens; larger ids are never drawn.
        width: concurrent requests. Changes no response where the server is batch invariant.
        log: the file of the server's output.
        started: called with the server's report when it is ready.
        needed: the most tokens of a response with its prompt; the server's cache must hold it.

    Raises:
        ValueError: there is no such environment, or the model cannot run there.
    """

    reconstructions_at_once = 1

    def __init__(
        self,
        launch: Launch,
        *,
        tokens: int,
        width: int,
        log: Path,
        started: Callable[[dict[str, Any]], None] | None = None,
        needed: int = 0,
    ) -> None:
        content = read_mapping(launch.folder / "config.json")
        facts = describe(content)
        check_architecture(facts.name, launch.device)
        launch.check()
        device = "cpu" if launch.device == "cpu" else _gpu_name()
        self.identity = EngineIdentity("sglang", launch.version, launch.attention, launch.dtype, device)
        self._launch, self._log, self._started, self._needed = launch, log, started, needed
        self._tokens, self._ends, self._width = tokens, _ends(launch.folder), width
        self._asker = Asker(context=facts.context, vocabulary=facts.vocabulary, tokens=tokens)
        self._pool = ThreadPoolExecutor(max(width, TOGETHER), thread_name_prefix="sglang")
        self._submitted: deque[Request] = deque()
        self._ended: SimpleQueue[Future[Completion]] = SimpleQueue()
        self._invariant: bool | None = None
        self.server: Server | None = None
        self.watch: Callable[[int, int], None] | None = None
        self.failed: Callable[[str, str], None] | None = None

    def submit(self, request: Request) -> None:
        self._submitted.append(request)

    def reconstruct(self, reconstructions: Sequence[Reconstruction]) -> list[Segment]:
        """Not possible: a server gives no states."""
        raise ValueError(
            f"reconstruction {reconstructions[0].key[:12]}: the SGLang engine captures no states; use the Transformers engine"
        )

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yields completions as responses end; see `Engine.run`.

        Raises:
            ValueError: the server does not come up, or a request needs something that this engine cannot do.
                Without `failed`: the server did not answer a request.
            ServerFailed: the server died or stalled.
        """
        source = iter(requests)
        self._submitted.clear()
        self._ended = SimpleQueue()
        under_way: dict[Future[Completion], tuple[Request, int]] = {}  # with the width at which each was sent
        drawn = 0
        while True:
            while len(under_way) < self._width and (request := self._next(source)) is not None:
                if len(request.prompt_ids) >= self._asker.context:
                    yield Completion(request.key, (), "context", None, None, Usage(len(request.prompt_ids), 0))
                    continue
                if self.server is None:
                    self._open(request)
                under_way[self._send(request, self._complete, self._ended)] = request, self._width
            if not under_way:
                return
            future = self._next_ended(self._ended, len(under_way), drawn)
            (request, width), error = under_way.pop(future), future.exception()
            if error is None:
                completion = future.result()
                drawn += completion.usage.response_tokens
                yield completion
            elif isinstance(error, Retracted):
                self._submitted.append(request)
                if width == self._width:  # not again for the others of the same full cache
                    self._narrow()
            else:
                self._tell(len(under_way), drawn)  # a signal to stop can end the server too
                if not isinstance(error, ValueError) or self.failed is None:
                    raise error
                self.failed(request.key, str(error))

    def ended(self) -> list[Completion]:
        """The responses that have ended and were not yielded; see `Engine.ended`."""
        completions = []
        with suppress(Empty):
            while True:
                future = self._ended.get_nowait()
                if future.exception() is None:
                    completions.append(future.result())
        return completions

    def close(self) -> None:
        """Ends the server, and with it the running requests."""
        if self.server is not None:
            self.server.stop()
        self._pool.shutdown(cancel_futures=True)

    def _open(self, probe: Request) -> None:
        """Starts the server and observes its batch invariance on a request.

        Raises:
            ValueError: it does not start, or is not the configured one. No response can be the cause, so this is no ServerFailed.
        """
        _print(f"starting the server; its output goes to {self._log}")
        self.server = Server(self._launch, self._log)
        try:
            self.server.wait_until_ready(lambda: self._tell(0, 0))
            facts = self.server.facts
            self._launch.check_report(facts, max(self._needed, len(probe.prompt_ids) + self._asker.limit(probe)))
            comparison = self._compare(probe)
        except ServerFailed as error:
            raise ValueError(str(error)) from error
        _print(f"the server is ready; {comparison}")
        self._invariant = comparison.batch_invariant
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
                    "cache_tokens": facts.get("max_total_num_tokens"),
                }
            )

    def _compare(self, probe: Request) -> Comparison:
        def ask(requests: Sequence[Request]) -> list[Scored]:
            ended: SimpleQueue[Future[Scored]] = SimpleQueue()
            futures = [self._send(request, self._asker.scored, ended, return_logprob=True) for request in requests]
            for _ in futures:
                self._next_ended(ended, 0, 0)
            return [future.result() for future in futures]

        try:
            return compare(ask, probe)
        except Retracted:
            return NOT_COMPARED

    def _send(
        self, request: Request, parse: Parse[Answer], ended: SimpleQueue[Future[Answer]], **more: Any
    ) -> Future[Answer]:
        """Sends a request in a thread; the future comes out of `ended`."""
        future = self._pool.submit(lambda: self._ask(request, parse, **more))
        future.add_done_callback(ended.put)
        return future

    def _ask(self, request: Request, parse: Parse[Answer], **more: Any) -> Answer:
        """In a thread: the answer to a request.

        Raises:
            ServerFailed: the server has ended.
            Retracted: the request must be sent again.
            ValueError: the server does not answer this request; it can answer others.
        """
        assert self.server is not None
        try:
            return parse(request, self.server.generate(self._asker.payload(request, **more)))
        except Unanswered as error:
            self.server.check(within=_DEATH_SECONDS)
            raise ValueError(f"request {request.key[:12]}: {error}") from error

    def _next_ended(self, ended: SimpleQueue[Future[Answer]], running: int, drawn: int) -> Future[Answer]:
        """The next request that ends. Meanwhile `watch` is called, and the server must live."""
        assert self.server is not None
        while True:
            self._tell(running, drawn)
            self.server.check()
            with suppress(Empty):
                return ended.get(timeout=_TICK_SECONDS)

    def _complete(self, request: Request, answer: dict[str, Any]) -> Completion:
        return replace(self._asker.completion(request, answer), batch_invariant=self._invariant)

    def _narrow(self) -> None:
        """Halves the number of running requests. One alone always fits into the cache, so every response is generated."""
        self._width = max(1, self._width // 2)
        _print(
            f"the server's cache ran full; now {self._width} requests at a time (more memory: sglang.memory_fraction, "
            "sglang.cache_tokens)"
        )

    def _tell(self, running: int, drawn: int) -> None:
        if self.watch is not None:
            self.watch(running, drawn)

    def _next(self, source: Iterator[Request]) -> Request | None:
        request = self._submitted.popleft() if self._submitted else next(source, None)
        if request is not None:
            check_request(request, self._tokens, self._ends)
        return request


def _print(text: str) -> None:
    print(f"SGLang: {text}", file=sys.stderr, flush=True)


def _ends(folder: Path) -> list[int]:
    """The end tokens in a model's configuration, at which SGLang always stops."""
    end_ids: list[int] = []
    for name in ("config.json", "generation_config.json"):
        if (folder / name).is_file():
            content = read_mapping(folder / name)
            ends = content.get("eos_token_id", (content.get("text_config") or {}).get("eos_token_id"))
            end_ids += [] if ends is None else [ends] if isinstance(ends, int) else ends
    return end_ids


def _gpu_name() -> str:
    """The name of the first GPU as its driver gives it."""
    try:
        listing = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        raise ValueError("sglang.device is cuda, but nvidia-smi does not run here") from None
    return listing.stdout.splitlines()[0].strip()
