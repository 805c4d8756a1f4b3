"""The boundaries of what enters the bank, case by case."""

from __future__ import annotations

import pytest

from stair.method import capture_length

THINK, STOP, PAD = 90, 99, 98


@pytest.mark.parametrize(
    ("response", "processed", "expected"),
    [
        ([1, 2, THINK, 4, 5, STOP], 5, 2),  # up to the marker
        ([1, THINK, 3, THINK, 5, STOP], 5, 3),  # up to the last marker
        ([1, 2, 3, 4], 3, 3),  # cut at the length limit: the token sampled last has no state
        ([1, 2, THINK], 2, 2),  # the marker is the token sampled last
        ([1, 2, STOP], 2, 2),  # stopped without a marker
        ([1, 2, STOP], 3, 2),  # replayed whole: the end marker stays out all the same
        ([THINK, 2, STOP], 2, 0),
        ([1, 2, 3, THINK, 5], 1, 1),  # never more than was processed
        ([STOP], 0, 0),
        ([], 0, 0),
    ],
)
def test_a_thinking_model(response: list[int], processed: int, expected: int) -> None:
    assert capture_length(response, processed=processed, end_of_thinking=THINK, stop_ids={STOP, PAD}) == expected


@pytest.mark.parametrize(
    ("response", "processed", "expected"),
    [
        ([1, 2, 3, STOP], 3, 3),
        ([1, 2, 3, STOP], 4, 3),
        ([1, 2, 3, PAD], 4, 3),
        ([1, 2, 3], 2, 2),
        ([1, 2, 3], 3, 3),  # replayed: the last token has been processed
        ([1, THINK, 3], 2, 2),
        ([STOP], 1, 0),
    ],
)
def test_an_instruct_model(response: list[int], processed: int, expected: int) -> None:
    assert capture_length(response, processed=processed, end_of_thinking=None, stop_ids=[STOP, PAD]) == expected


def test_more_processed_than_generated_is_an_error() -> None:
    with pytest.raises(ValueError, match="processed"):
        capture_length([1, 2], processed=3, end_of_thinking=None, stop_ids=())
