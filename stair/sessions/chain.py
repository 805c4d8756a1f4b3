"""A chain: turns in sequence, each requested when the earlier ones are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stair.engines.base import Completion, Engine, Reconstruction, Request

if TYPE_CHECKING:
    from stair.method import Segment


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

    def next(self) -> str | None:
        """The key of the next response; None at the end."""
        ...

    def append_record(self, record: Mapping[str, Any]) -> None:
        """Continues with the record of the next response."""
        ...

    def lost(self, engine: Engine) -> Reconstruction | None:
        """The first states that the next request reads and that have to be reconstructed."""
        ...

    def restore(self, segment: Segment) -> None:
        """Receives these states."""
        ...

    def request(self, engine: Engine) -> Request:
        """The next response as a request; no states may be lost."""
        ...

    def record(self, completion: Completion, engine: Engine) -> dict[str, Any]:
        """The log's record of a completion of its request; saves captured states first."""
        ...
