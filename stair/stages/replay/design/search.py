"""A search by swaps, for choices that are easy to check and hard to construct."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_TEMPERATURE = 0.3
"""A swap that misses by one more is kept about once in 28: enough to leave a dead end, too rare to lose what was reached."""


def swap_search(
    start: Sequence[Sequence[T]], misses: Callable[[list[list[T]]], int], swaps: int, chance: random.Random
) -> tuple[int, list[list[T]]]:
    """Exchanges items between boxes until nothing is missed.

    Args:
        start: the items of each box. The last box holds the items that are not chosen.
        misses: by how much boxes miss the aim; the search ends at zero.
        swaps: how many exchanges are tried.
        chance: draws the exchanges.

    Returns:
        The fewest misses that were reached, and the boxes that have them. Every box keeps its size.
    """
    boxes = [list(box) for box in start]
    current = fewest = misses(boxes)
    best = [list(box) for box in boxes]
    places = [(number, index) for number, box in enumerate(boxes) for index in range(len(box))]
    chosen = len(places) - len(boxes[-1])
    for _ in range(swaps if chosen else 0):
        if fewest == 0:
            break
        (box, index), (other, place) = places[chance.randrange(chosen)], places[chance.randrange(len(places))]
        if box == other:
            continue
        boxes[box][index], boxes[other][place] = boxes[other][place], boxes[box][index]
        missed = misses(boxes)
        if missed > current and chance.random() >= math.exp((current - missed) / _TEMPERATURE):
            boxes[box][index], boxes[other][place] = boxes[other][place], boxes[box][index]
            continue
        current = missed
        if current < fewest:
            fewest, best = current, [list(one) for one in boxes]
    return fewest, best
