"""Parts of a sequence of token ids: a prompt's control span, and a response's answer after `</think>`."""

from __future__ import annotations

from collections.abc import Sequence


def control_span(prompt_ids: Sequence[int], user_header: Sequence[int]) -> tuple[int, int]:
    """The control span of a prompt (appendix B.3): from the last user header to the prompt's end.

    Args:
        user_header: the ids that open a user message, such as those of `<|im_start|>user`.

    Returns:
        Start and end (exclusive) as positions in the prompt. The span contains the user body, template tokens, the assistant's
        generation prefix and, in thinking mode, the opening `<think>`.

    Raises:
        ValueError: the prompt has no user header.
    """
    header = list(user_header)
    for start in range(len(prompt_ids) - len(header), -1, -1):
        if list(prompt_ids[start : start + len(header)]) == header:
            return start, len(prompt_ids)
    raise ValueError("the prompt has no user header, so there is no span to control")


def last_position(ids: Sequence[int], marker: int) -> int | None:
    """The last position of `marker`, or None."""
    for position in range(len(ids) - 1, -1, -1):
        if ids[position] == marker:
            return position
    return None


def answer_ids(body: Sequence[int], end_of_thinking: int | None) -> list[int]:
    """The final answer in a response body: all of it without thinking, else the ids after the last `</think>`.

    A thinking response without the marker has no answer: an empty list (appendix B.1).
    """
    if end_of_thinking is None:
        return list(body)
    split = last_position(body, end_of_thinking)
    return [] if split is None else list(body[split + 1 :])
