"""A chain: turns in sequence, each requested when the earlier ones are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from stair.engines.base import Completion, Engine, Reconstruction, Request

if TYPE_CHECKING:
    from stair.method import Segment


class Chain(Protocol):
    """One running conversation. `next`, `append_record` and rows need no model, so a finished chain is sealed without one."""

    rows: list[dict[str, Any]]
    """The finished turns as rows of the stage's table."""
    missing: str | None
    """Why the next response and all later ones are missing; None if they are not."""

    @property
    def name(self) -> str:
        """The next response, for people."""
        ...

    def generates(self) -> int:
        """The number of responses that the chain generates in all."""
        ...

    def gaps(self) -> list[dict[str, Any]]:
        """The missing responses, each with its reason."""
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
