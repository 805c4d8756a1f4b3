"""Turn columns: shuffled independently, with swaps that keep the problems of a session distinct."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from stair.records.seeds import hash_order, seed_of

T = TypeVar("T")

_ATTEMPTS = 3
_SWEEPS = 10


def arrange(
    columns: Sequence[Sequence[T]], problem: Callable[[T], Hashable], name: Callable[[T], str], *seed: str | int
) -> list[tuple[T, ...]]:
    """Sessions from turn columns.

    Every column is ordered by hash under its own name. If a session would repeat a problem, two entries of the later column are
    swapped. If no swap exists, as with problems that nearly fill their share, random swaps shuffle a valid arrangement.

    Args:
        columns: one sequence of items for each turn, of equal length.
        problem: the problem of an item.
        name: an item's identity, distinct within its column.
        seed: names the orders.

    Returns:
        One tuple for each session: its item of every turn. Every item of every column is in exactly one tuple.

    Raises:
        ValueError: columns of unequal length, or a problem with more items than sessions.
    """
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise ValueError(f"turn columns differ in length: {[len(column) for column in columns]}")
    _check_shares(columns, problem)
    for attempt in range(_ATTEMPTS):
        arranged = [
            hash_order(column, *seed, f"turn {turn}", attempt, key=[name(item) for item in column])
            for turn, column in enumerate(columns, start=1)
        ]
        if all(_resolve(arranged, turn, problem) for turn in range(1, len(arranged))):
            return list(zip(*arranged, strict=True))
    arranged = _shifted(arranged, problem)
    for turn in range(1, len(arranged)):
        _shuffle(arranged, turn, problem, random.Random(seed_of(*seed, "swaps", f"turn {turn}")))
    return hash_order(list(zip(*arranged, strict=True)), *seed, "sessions", key=[name(first) for first in arranged[0]])


def _check_shares(columns: Sequence[Sequence[T]], problem: Callable[[T], Hashable]) -> None:
    sessions = len(columns[0])
    counts = Counter(problem(item) for column in columns for item in column)
    if len(counts) < len(columns):
        raise ValueError(f"{len(counts)} problems are too few for sessions of {len(columns)} distinct ones")
    most, count = max(counts.items(), key=lambda item: (item[1], str(item[0])))
    if count > sessions:
        raise ValueError(
            f"problem {most} has {count} items for {sessions} sessions of {len(columns)} distinct problems; a session holds "
            "at most one of them"
        )


def _shifted(arranged: list[list[T]], problem: Callable[[T], Hashable]) -> list[list[T]]:
    """Columns sorted by problem, each shifted by a share of the sessions, so that no problem meets itself.

    Items of one problem keep their order, which is by hash and differs between columns.
    """
    by_problem = [sorted(column, key=lambda item: str(problem(item))) for column in arranged]
    share = len(arranged[0]) // len(arranged)
    shifted = [column[turn * share :] + column[: turn * share] for turn, column in enumerate(by_problem)]
    if any(len({problem(item) for item in session}) < len(arranged) for session in zip(*shifted, strict=True)):
        raise ValueError("turn columns hold their problems unequally often, and swaps did not separate them")
    return shifted


def _shuffle(arranged: list[list[T]], turn: int, problem: Callable[[T], Hashable], chance: random.Random) -> None:
    """Swaps entries of one column at random, wherever both sessions keep distinct problems."""
    column, count = arranged[turn], len(arranged[turn])
    others = [{problem(one[row]) for number, one in enumerate(arranged) if number != turn} for row in range(count)]
    for _ in range(_SWEEPS):
        for row in range(count):
            other = chance.randrange(count)
            if problem(column[row]) not in others[other] and problem(column[other]) not in others[row]:
                column[row], column[other] = column[other], column[row]


def _resolve(arranged: list[list[T]], turn: int, problem: Callable[[T], Hashable]) -> bool:
    """Swaps entries of one column until no session repeats a problem of an earlier turn; False if none can."""
    column, count = arranged[turn], len(arranged[turn])
    earlier = [{problem(arranged[before][row]) for before in range(turn)} for row in range(count)]
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
