"""STAIR (Stale-Token Attention for Inter-query Reuse): the method, and the workflow that reproduces its paper."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stair.conversation import Conversation

__all__ = ["Conversation"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imports `Conversation` when it is first used: most commands need no torch."""
    if name != "Conversation":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stair.conversation import Conversation

    return Conversation
