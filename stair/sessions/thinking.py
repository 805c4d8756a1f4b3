"""The split of a thinking response at its last `</think>`."""

from __future__ import annotations

from collections.abc import Sequence


def last_position(ids: Sequence[int], marker: int) -> int | None:
    """Where `marker` stands last, or None."""
    for position in range(len(ids) - 1, -1, -1):
        if ids[position] == marker:
            return position
    return None


def answer_ids(body: Sequence[int], end_of_thinking: int | None) -> list[int]:
    """The final answer within a response body: all of it without thinking, else what follows the last `</think>`.

    A thinking response without the marker has no answer: an empty list (appendix B.1).
    """
    if end_of_thinking is None:
        return list(body)
    split = last_position(body, end_of_thinking)
    return [] if split is None else list(body[split + 1 :])
