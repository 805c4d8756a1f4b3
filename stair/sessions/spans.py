"""Spans of a prompt, found by token ids."""

from __future__ import annotations

from collections.abc import Sequence


def control_span(prompt_ids: Sequence[int], user_header: Sequence[int]) -> tuple[int, int]:
    """The control span of a prompt (appendix B.3): from the last user header to the prompt's end.

    Args:
        prompt_ids: the full conversation input.
        user_header: the ids that open a user message, such as those of `<|im_start|>user`.

    Returns:
        Start and end (exclusive) as positions in the prompt. The user body, template tokens, the assistant's generation
        prefix and, in thinking mode, the opening `<think>` lie within.

    Raises:
        ValueError: the prompt has no user header.
    """
    header = list(user_header)
    for start in range(len(prompt_ids) - len(header), -1, -1):
        if list(prompt_ids[start : start + len(header)]) == header:
            return start, len(prompt_ids)
    raise ValueError("the prompt has no user header, so there is no span to control")
