"""The SGLang engine: requests to a server of its own, completions in the order in which they end."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

from stair.config.engines import SGLangSettings
from stair.core import EngineIdentity
from stair.engines.base import Completion, Reconstruction, Request, Usage
from stair.engines.sglang.client import Asker, Retracted
from stair.engines.sglang.launch import ServerLaunch, check_environment
from stair.engines.sglang.server import Server, ServerFailed
from stair.engines.sglang.supported import check_architecture, check_request
from stair.models.architecture import describe
from stair.records.files import read_mapping

if TYPE_CHECKING:
    from stair.method import Segment

_TICK_SECONDS = 0.5
_DEATH_SECONDS = 5.0
"""An answer that a dying server breaks off precedes the end of its process by less."""


class SGLangEngine:
    """Generates by a server that starts with the first request and ends with `close` or with this process.

    Each running request has a thread that waits for its answer. A server that dies ends the run: the work log has the finished
    responses, so the same job resumes with a new server.

    Args:
        folder: the model.
        tokens: the number of the tokenizer's tokens; larger ids are never drawn.
        log: the file of the server's output.

    Raises:
        ValueError: there is no such environment, or the model cannot run there.
    """

    reconstructions_at_once = 1

    def __init__(self, settings: SGLangSettings, folder: Path, dtype: str, *, tokens: int, log: Path) -> None:
        facts = describe(read_mapping(folder / "config.json"))
        check_architecture(facts.name, settings.device)
        check_environment(settings)
        device = "cpu" if settings.device == "cpu" else _gpu_name()
        self.identity = EngineIdentity("sglang", settings.version, settings.attention, dtype, device)
        self._launch, self._log = ServerLaunch(settings, folder, dtype, facts.context), log
        self._ends, self._width = _ends(folder), settings.concurrency
        self._asker = Asker(context=facts.context, vocabulary=facts.vocabulary, tokens=tokens)
        self._pool = ThreadPoolExecutor(self._width, thread_name_prefix="sglang")
        self._submitted: deque[Request] = deque()
        self._running: dict[Future[Completion], tuple[Request, int]] = {}
        """The requests at the server, each with the width at which it was sent."""
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
            ServerFailed: the server died.
        """
        source = iter(requests)
        self._submitted.clear()
        self._running.clear()
        drawn = 0
        while True:
            while len(self._running) < self._width and (request := self._next(source)) is not None:
                if len(request.prompt_ids) >= self._asker.context:
                    yield Completion(request.key, (), "context", None, None, Usage(len(request.prompt_ids), 0))
                    continue
                server = self.server or self._open()
                self._check_room(server, request)
                self._running[self._pool.submit(self._ask, server, request)] = request, self._width
            if self.server is None or not self._running:
                return
            ended, _ = wait(self._running, timeout=_TICK_SECONDS, return_when=FIRST_COMPLETED)
            self._tell(len(self._running), drawn)  # before the check: a signal to stop can end the server too
            self.server.check()
            for future in ended:
                request, width = self._running.pop(future)
                try:
                    completion = future.result()
                except Retracted:
                    self._submitted.append(request)
                    if width == self._width:  # not again for the others of the same full cache
                        self._narrow()
                except ValueError as error:
                    self.server.check(within=_DEATH_SECONDS)
                    problem = f"request {request.key[:12]}: {error}"
                    if self.failed is None:
                        raise ValueError(problem) from error
                    self.failed(request.key, problem)
                else:
                    drawn += completion.usage.response_tokens
                    yield completion

    def ended(self) -> list[Completion]:
        """The responses that have ended and were not yielded; see `Engine.ended`."""
        return [future.result() for future in self._running if future.done() and future.exception() is None]

    def close(self) -> None:
        """Ends the server, and with it the running requests."""
        if self.server is not None:
            self.server.stop()
        self._pool.shutdown(cancel_futures=True)

    def _open(self) -> Server:
        """Starts the server.

        Raises:
            ValueError: it does not start, or is not the configured one. No response can be the cause, so this is no ServerFailed.
        """
        _print(f"starting the server; its output goes to {self._log}")
        self.server = Server(self._launch, self._log)
        try:
            self.server.wait_until_ready(lambda: self._tell(0, 0))
        except ServerFailed as error:
            raise ValueError(str(error)) from error
        self._launch.check_report(self.server.facts)
        _print("the server is ready")
        return self.server

    def _ask(self, server: Server, request: Request) -> Completion:
        """In a thread: the response to a request. Raises as `Server.generate` and `Asker.completion`."""
        return self._asker.completion(request, server.generate(self._asker.payload(request)))

    def _check_room(self, server: Server, request: Request) -> None:
        """Raises ValueError if the server's cache may be too small for a response, which the server would then cut off."""
        needed = len(request.prompt_ids) + self._asker.limit(request)
        room = server.facts.get("max_total_num_tokens")
        if isinstance(room, int) and room < needed + 2:  # the server keeps some of its cache for itself
            raise ValueError(
                f"the server's key/value cache holds {room} tokens, and request {request.key[:12]} can need {needed}; give it "
                "more memory (sglang.memory_fraction, sglang.cache_tokens, sglang.tensor_parallel)"
            )

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
            check_request(request, self._ends)
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
