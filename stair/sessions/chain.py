"""A chain: turns in sequence, each requested when the earlier ones are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stair.engines.base import Completion, Engine, Reconstruction, Request

if TYPE_CHECKING:
    from stair.method import Segment


@dataclass(frozen=True)
class Step:
    """The next need of a chain: a response to generate, or the states of a saved one."""

    key: str
    """The key of the response or the reconstruction in the work log."""
    reconstructs: bool = False


class Missing(NamedTuple):
    """A response that the configuration names as missing: every attempt failed (appendix C.3)."""

    turn: int
    reason: str
    reused: bool = False
    """Whether it is a response of another condition, which reports it as missing."""


class Chain(Protocol):
    """One running conversation. `next`, `append_record` and rows need no model, so a finished chain is sealed without one."""

    rows: list[dict[str, Any]]
    """The finished turns as rows of the stage's table."""
    missing: Missing | None
    """The response that the configuration names as missing; ignored if the log has it."""

    @property
    def name(self) -> str: ...

    def entry(self) -> dict[str, Any]:
        """The keys of the next response in the configuration's list of missing ones."""
        ...

    def gives_up(self) -> bool:
        """Whether the next response is the one that the configuration names as missing."""
        ...

    def generates(self) -> int:
        """The number of responses that the chain generates in all. A missing response takes all later turns."""
        ...

    def gaps(self) -> list[dict[str, Any]]:
        """The responses that the chain lacks, each with its reason: the missing one and all later turns."""
        ...

    def next(self) -> Step | None:
        """The next step; None at the end."""
        ...

    def append_record(self, record: Mapping[str, Any]) -> None:
        """Continues with the finished record of the last step."""
        ...

    def substitute(self, log: Callable[[str], Mapping[str, Any] | None]) -> bool:
        """Uses states that an earlier attempt reconstructed; True if the next step's key has changed."""
        ...

    def request(self, engine: Engine) -> Request:
        """The next step as a request, with loaded states. Its key changes if lost states are reconstructed here."""
        ...

    def remade(self) -> list[tuple[str, dict[str, Any]]]:
        """Keys and records of states that were just reconstructed, for the log; empties the list."""
        ...

    def reconstruction(self, engine: Engine) -> Reconstruction:
        """The next step as a reconstruction."""
        ...

    def record(self, completion: Completion, engine: Engine) -> dict[str, Any]:
        """The log's record of a completion; saves captured states first."""
        ...

    def reconstruction_record(self, segment: Segment) -> dict[str, Any]:
        """The log's record of a reconstruction; saves the states first."""
        ...
