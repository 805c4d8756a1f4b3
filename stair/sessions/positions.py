"""Auxiliary positions beyond the model's context (section 3.1, appendix B.2): counted, never clamped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from stair.records.files import read_mapping
from stair.records.manifest import manifest_path

KEY = "auxiliary_positions"
"""The manifest's key; its value is null for a condition that reads no bank."""


class Beyond(NamedTuple):
    """How many auxiliary positions of one response lie beyond the context."""

    queries: int
    entries: int


def beyond_context(bank_tokens: int | None, controlled_tokens: int, prompt_tokens: int, context: int) -> Beyond:
    """Counts the auxiliary positions of one response beyond the model's context.

    A read of M bank entries places the entries at 0 to M - 1 and the token at position p of the conversation at M + p
    (section 3.1). The control span is the prompt's last `controlled_tokens` tokens. A context of N tokens has the
    positions 0 to N - 1. A position counts once for all layers and heads. A response without bank entries has no auxiliary
    positions.

    Args:
        bank_tokens: M; None without a bank.
        prompt_tokens: tokens of the full conversation input, without padding.
        context: N, the model's `max_position_embeddings`.
    """
    if not bank_tokens or not controlled_tokens:
        return Beyond(0, 0)
    queries = min(controlled_tokens, bank_tokens + prompt_tokens - context)
    return Beyond(max(0, queries), max(0, bank_tokens - context))


@dataclass
class AuxiliaryPositions:
    """The counts of `beyond_context`, summed over the rows of a condition."""

    context: int
    """N, the model's `max_position_embeddings`."""
    largest: int | None = None
    """The largest auxiliary position of any response, counted from 0; None without a read."""
    responses: int = 0
    """Responses with a position beyond the context."""
    queries: int = 0
    entries: int = 0

    @classmethod
    def recorded(cls, responses: Path) -> Self | None:
        """The counts in the manifest of sealed responses; None without them."""
        path = manifest_path(responses)
        counts = read_mapping(path).get(KEY) if path.is_file() else None
        return None if counts is None else cls(**counts)

    def add(self, row: Mapping[str, Any]) -> None:
        bank, controlled, prompt = row["bank_tokens"], row["controlled_tokens"], row["prompt_tokens"]
        beyond = beyond_context(bank, controlled, prompt, self.context)
        self.responses += any(beyond)
        self.queries += beyond.queries
        self.entries += beyond.entries
        if bank and controlled:
            self.largest = max(self.largest or 0, bank + prompt - 1)

    def as_dict(self) -> dict[str, int | None]:
        return asdict(self)
