"""Which states of an answer enter the bank (appendix B.1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def capture_length(response_ids: Sequence[int], *, end_of_thinking: int | None, stop_ids: Collection[int]) -> int:
    """Return how many leading tokens of a response have states that belong in the bank.

    The token that was sampled last has no state: no forward pass has processed it, and none does in a reconstruction.

    response_ids     the generated tokens, a final stop token included where there is one
    end_of_thinking  the id of `</think>` for a thinking model: capture ends before the last one, and without any takes all
                     that was processed. None for an Instruct model: the whole answer body
    stop_ids         end markers; capture ends before the first, in both kinds of model
    """
    ids = list(response_ids)
    length = next((index for index, token in enumerate(ids) if token in stop_ids), len(ids))
    if end_of_thinking is not None and end_of_thinking in ids[:length]:
        length = length - 1 - ids[:length][::-1].index(end_of_thinking)
    return min(length, max(len(ids) - 1, 0))
