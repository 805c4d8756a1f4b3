"""The boundaries of what enters the bank, case by case."""

from __future__ import annotations

import pytest

from stair.method import capture_length

THINK, STOP, PAD = 90, 99, 98


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ([1, 2, THINK, 4, 5, STOP], 2),  # up to the marker
        ([1, THINK, 3, THINK, 5, STOP], 3),  # up to the last marker
        ([1, 2, 3, 4], 3),  # cut at the length limit: the token sampled last has no state
        ([1, 2, THINK], 2),  # the marker is the token sampled last
        ([1, 2, STOP], 2),  # stopped without a marker
        ([1, 2, STOP, THINK], 2),  # a marker after the end is none
        ([THINK, 2, STOP], 0),
        ([STOP], 0),
        ([], 0),
    ],
)
def test_a_thinking_model(response: list[int], expected: int) -> None:
    assert capture_length(response, end_of_thinking=THINK, stop_ids={STOP, PAD}) == expected


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ([1, 2, 3, STOP], 3),
        ([1, 2, PAD, STOP], 2),  # the first end marker ends it
        ([1, 2, 3], 2),
        ([1, THINK, 3], 2),
        ([STOP], 0),
    ],
)
def test_an_instruct_model(response: list[int], expected: int) -> None:
    assert capture_length(response, end_of_thinking=None, stop_ids=[STOP, PAD]) == expected
