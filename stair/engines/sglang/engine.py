"""The SGLang engine: requests to a server of its own, completions in the order in which they end."""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stair.core import EngineIdentity
from stair.engines.base import Capabilities, Completion, Reconstruction, Request, Usage
from stair.engines.sglang.client import Asker
from stair.engines.sglang.launch import Launch
from stair.engines.sglang.server import ServerFailed
from stair.engines.sglang.service import Patience, Service, Unanswered
from stair.engines.sglang.supported import capabilities, check_architecture, check_request
from stair.models.architecture import describe
from stair.records.files import read_mapping

if TYPE_CHECKING:
    from stair.method import Segment


class SGLangEngine:
    """Generates by a server that is started with the first request, and ended by `close` or with this process.

    Args:
        launch: what to start.
        tokens: how many ids are tokens of the tokenizer; ids beyond are never drawn.
        width: requests that are sent at a time. Changes no response where the server is batch invariant.
        log: the server's output.
        patience: how long starting and standing still may take.
        started: told what every server says of itself.
        port: the port to try first; 0 takes any.
        needed: tokens that the longest response can take in the server's cache, its prompt included; None: what is asked first.

    Raises:
        ValueError: there is no such environment, or the model cannot be run there.
    """

    reconstructions_at_once = 1

    def __init__(
        self,
        launch: Launch,
        *,
        tokens: int,
        width: int,
        log: Path,
        patience: Patience | None = None,
        started: Callable[[dict[str, Any]], None] | None = None,
        port: int = 0,
        needed: int | None = None,
    ) -> None:
        content = read_mapping(launch.folder / "config.json")
        facts = describe(content)
        check_architecture(facts.name, launch.device)
        launch.check()
        device = "cpu" if launch.device == "cpu" else _gpu_name()
        self.identity = EngineIdentity("sglang", launch.version, launch.attention, launch.dtype, device)
        self._tokens, self._ends, self._width = tokens, _ends(launch.folder), width
        self._context, self._launch_device = facts.context, launch.device
        asker = Asker(context=facts.context, vocabulary=facts.vocabulary, tokens=tokens)
        self.service = Service(launch, asker, patience or Patience(), width, log, started, port, needed)
        self._submitted: deque[Request] = deque()
        self.watch: Callable[[int, int], None] | None = None
        self.failed: Callable[[str, str], None] | None = None
        self._invariant: bool | None = None

    @property
    def capabilities(self) -> Capabilities:
        """See `Engine`. Batch invariance is what was seen on the server of the completion that was given last."""
        return capabilities(self._launch_device, self._invariant)

    def submit(self, request: Request) -> None:
        """Adds a request to the run under way."""
        self._submitted.append(request)

    def reconstruct(self, reconstructions: Sequence[Reconstruction]) -> list[Segment]:
        """The server gives no states away."""
        raise ValueError(
            f"reconstruction {reconstructions[0].key[:12]}: the SGLang engine captures no states; take the Transformers engine"
        )

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yields completions as responses end; see `Engine.run`.

        Raises:
            ValueError: the server does not come up, or a request needs what this engine cannot do.
                Without `failed`: the server refuses a request.
            ServerFailed: the server dies again and again. Without `failed`: a request failed too often.
        """
        source = iter(requests)
        self.service.forget()
        flying = drawn = 0
        try:
            while True:
                while flying < self._width and (request := self._next(source)) is not None:
                    if len(request.prompt_ids) >= self._context:
                        yield Completion(request.key, (), "context", None, None, Usage(len(request.prompt_ids), 0))
                        continue
                    if not self.service.is_open:
                        try:
                            self.service.open(request, partial(self._tell, 0, drawn))
                        except ServerFailed as error:
                            # No response was under way, so none can be the cause.
                            raise ValueError(str(error)) from error
                    self.service.put(request)
                    flying += 1
                if not flying:
                    return
                completion = self.service.get(partial(self._tell, flying, drawn))
                flying -= 1
                if isinstance(completion, Unanswered):
                    if self.failed is None:
                        raise completion.error
                    self.failed(completion.key, str(completion.error))
                    continue
                drawn += completion.usage.response_tokens
                self._invariant = completion.batch_invariant
                yield completion
        finally:
            self.service.give_up()

    def ended(self) -> list[Completion]:
        """What the server has answered and was not given yet; see `Engine.ended`."""
        return self.service.forget()

    def close(self) -> None:
        """Ends the server."""
        self.service.close()

    def _tell(self, flying: int, drawn: int) -> None:
        if self.watch is not None:
            self.watch(flying, drawn)

    def _next(self, source: Iterator[Request]) -> Request | None:
        request = self._submitted.popleft() if self._submitted else next(source, None)
        if request is not None:
            check_request(request, self._tokens, self._ends)
        return request


def _ends(folder: Path) -> list[int]:
    """The end tokens in a model's configuration, at which SGLang stops whatever is asked."""
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
