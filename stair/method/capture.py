"""Which states of an answer enter the bank (appendix B.1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def capture_length(
    response_ids: Sequence[int], *, processed: int, end_of_thinking: int | None, stop_ids: Collection[int]
) -> int:
    """Return how many leading tokens of a response have states that belong in the bank.

    response_ids     the generated tokens, a final stop token included where there is one
    processed        how many of them have been through a forward pass; the token sampled last has not
    end_of_thinking  the id of `</think>` for a thinking model: capture ends before the last one, and without any takes
                     what was processed. None for an Instruct model: the whole answer body
    stop_ids         end markers; capture ends before the first, in both kinds of model
    Raises ValueError when `processed` is not from 0 to the response's length.
    """
    ids = list(response_ids)
    if not 0 <= processed <= len(ids):
        raise ValueError(f"processed tokens lie from 0 to the response's {len(ids)}, not {processed}")
    length = next((index for index, token in enumerate(ids) if token in stop_ids), len(ids))
    if end_of_thinking is not None and end_of_thinking in ids[:length]:
        length = length - 1 - ids[:length][::-1].index(end_of_thinking)
    return min(length, processed)
