"""The vocabulary of generation: requests, completions, and what an engine can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from stair.core import EngineIdentity, Truncation

if TYPE_CHECKING:
    from stair.method import Read, Receipt, Segment

FinishReason = Literal["stop", "length", "context"]


@dataclass(frozen=True)
class SamplingSettings:
    """Settings of one draw; the defaults change nothing."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    truncation: Truncation = "sequential"

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Capture:
    """Which states of a response to keep (appendix B.1)."""

    layers: tuple[int, ...]
    end_of_thinking: int | None
    """The id of `</think>` in thinking mode: states up to its last occurrence; None keeps the whole answer body."""


@dataclass(frozen=True)
class Request:
    """One response to generate."""

    key: str
    prompt_ids: tuple[int, ...]
    sampling: SamplingSettings
    seed: int
    max_new_tokens: int
    stop_ids: tuple[int, ...]
    read: Read | None = None
    """None for the native model."""
    capture: Capture | None = None
    adapter: str | None = None
    """The digest of the adapter; the engine's model must carry it."""

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError(f"request {self.key[:12]}: the prompt is empty")
        if self.max_new_tokens < 1:
            raise ValueError(f"request {self.key[:12]}: max_new_tokens must be at least 1")


@dataclass(frozen=True)
class Reconstruction:
    """A saved response whose bank states are computed again from its tokens (the exact-token replay of appendix C.4)."""

    key: str
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]
    capture: Capture
    read: Read | None = None
    """The read with which the response was generated."""
    adapter: str | None = None


@dataclass(frozen=True)
class Usage:
    """What a completion cost."""

    prompt_tokens: int
    response_tokens: int


@dataclass(frozen=True)
class Completion:
    """A finished response."""

    key: str
    response_ids: tuple[int, ...]
    """With the stop token, if one was drawn."""
    finish_reason: FinishReason
    bank: Segment | None
    """The captured states, if requested."""
    receipt: Receipt | None
    """The facts of the read, if there was one."""
    usage: Usage


class Engine(Protocol):
    """Generates responses."""

    identity: EngineIdentity
    """The engine in rows, with its device."""
    reconstructions_at_once: int
    """The best number of reconstructions in one pass."""
    watch: Callable[[int, int], None] | None
    """Called about every second, while an engine loads too, with the running responses and the tokens drawn. Its exceptions end
    the run.
    """
    failed: Callable[[str, str], None] | None
    """Called with the key of a response that cannot be generated, and the reason in one line.

    `run` then continues without the response. None: the error ends the run. Its exceptions end it too.
    """

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yields completions in the order in which they end.

        Requests are drawn as rows become free. `submit` adds more while the iterator is in use.
        """
        ...

    def ended(self) -> list[Completion]:
        """Ends a run: returns the finished responses that were not yielded. Running ones are lost."""
        ...

    def reconstruct(self, reconstructions: Sequence[Reconstruction]) -> list[Segment]:
        """The bank states of saved responses, each from one pass over its tokens."""
        ...

    def submit(self, request: Request) -> None:
        """Adds a request to the run under way; it goes before those not yet drawn from the iterable."""
        ...
