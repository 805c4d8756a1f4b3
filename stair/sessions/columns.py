"""Turn columns: shuffled independently, with swaps that keep a session's four problems distinct."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from stair.records.seeds import hash_order

T = TypeVar("T")

_ATTEMPTS = 100


def arrange(
    columns: Sequence[Sequence[T]], problem: Callable[[T], Hashable], name: Callable[[T], str], *seed: str | int
) -> list[tuple[T, ...]]:
    """Sessions from turn columns.

    Every column is ordered by hash under a name of its own; where a session would hold one problem twice, two entries of the
    later column change places.

    Args:
        columns: one sequence of items for each turn, of equal length.
        problem: the problem that an item belongs to.
        name: an item's identity, distinct within its column.
        seed: names the orders.

    Returns:
        One tuple for each session: its item of every turn. Every item of every column stands in exactly one.

    Raises:
        ValueError: no such arrangement was found.
    """
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise ValueError(f"turn columns differ in length: {[len(column) for column in columns]}")
    for attempt in range(_ATTEMPTS):
        placed = [
            hash_order(column, *seed, f"turn {turn}", attempt, key=[name(item) for item in column])
            for turn, column in enumerate(columns, start=1)
        ]
        if all(_resolve(placed, turn, problem) for turn in range(1, len(placed))):
            return list(zip(*placed, strict=True))
    raise ValueError(
        f"no arrangement of {sizes.pop()} sessions keeps {len(columns)} distinct problems in each; there are too few problems"
    )


def _resolve(placed: list[list[T]], turn: int, problem: Callable[[T], Hashable]) -> bool:
    """Swaps entries of one column until no session repeats a problem of an earlier turn; False if none can."""
    column, count = placed[turn], len(placed[turn])
    earlier = [{problem(placed[before][row]) for before in range(turn)} for row in range(count)]
    for row in range(count):
        if problem(column[row]) not in earlier[row]:
            continue
        for step in range(1, count):
            other = (row + step) % count
            if problem(column[other]) not in earlier[row] and problem(column[row]) not in earlier[other]:
                column[row], column[other] = column[other], column[row]
                break
        else:
            return False
    return True
