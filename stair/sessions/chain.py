"""A chain: turns that follow one another, each asked when those before it are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stair.engines.base import Completion, Engine, Reconstruction, Request

if TYPE_CHECKING:
    from stair.method import Segment


@dataclass(frozen=True)
class Step:
    """What a chain needs next: a response to generate, or the states of a saved one."""

    key: str
    """The response key (or the reconstruction's), by which finished work is found again."""
    reconstructs: bool = False


class Missing(NamedTuple):
    """A response that the configuration names as missing: a process failed every time (appendix C.3)."""

    turn: int
    reason: str
    """One line."""
    reused: bool = False
    """The response is that of another condition, which reports it as missing."""


class Chain(Protocol):
    """One conversation under way. `next`, `append_record` and rows need no model, so a finished chain is sealed without one."""

    rows: list[dict[str, Any]]
    """What the chain has so far, as rows of its stage's table."""
    missing: Missing | None
    """The response that the configuration names as missing; used where the log has it nevertheless."""

    @property
    def name(self) -> str:
        """The chain's name, for people."""
        ...

    def entry(self) -> dict[str, Any]:
        """The keys that name the next response in the configuration's list of missing ones."""
        ...

    def gives_up(self) -> bool:
        """Whether the next response is the one that the configuration names as missing."""
        ...

    def generates(self) -> int:
        """How many responses the chain generates in all, from its first turn, as far as is known by now.

        A missing response that has not been met takes the turns from it on.
        """
        ...

    def gaps(self) -> list[dict[str, Any]]:
        """The responses that the chain lacks, each with its reason: the missing one and all later turns."""
        ...

    def next(self) -> Step | None:
        """The step that comes next; None when the chain has ended."""
        ...

    def append_record(self, record: Mapping[str, Any]) -> None:
        """Goes on with the finished record of the step that `next` gave."""
        ...

    def substitute(self, log: Callable[[str], Mapping[str, Any] | None]) -> bool:
        """Takes over states that an earlier attempt had to make again; True when the next step's key has changed."""
        ...

    def request(self, engine: Engine) -> Request:
        """The next step as a request, states loaded. The step's key can change here, when states had to be made again."""
        ...

    def remade(self) -> list[tuple[str, dict[str, Any]]]:
        """Keys and records of states that were just made again, for the log; empties the list."""
        ...

    def reconstruction(self, engine: Engine) -> Reconstruction:
        """The next step as a reconstruction."""
        ...

    def record(self, completion: Completion, engine: Engine) -> dict[str, Any]:
        """What the log keeps of a completion; captured states are saved first."""
        ...

    def reconstruction_record(self, segment: Segment) -> dict[str, Any]:
        """What the log keeps of a reconstruction; the states are saved first."""
        ...
