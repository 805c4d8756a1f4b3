"""Chooses current problems: nobody's sources first, then the other group's."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stair.records.seeds import hash_order


def choose_problems(
    problems: Collection[str], sources: Sequence[Collection[str]], count: int, *seed: str | int
) -> list[tuple[str, ...]]:
    """`count` current problems for each of two groups, none in both and none that is a source of its own group.

    Problems that are nobody's source are used up before the other group's sources, and shared equally where these suffice.

    Args:
        problems: all that can be current.
        sources: each group's source problems, which are disjoint.
        count: current problems of a group.
        seed: names the choice and the order.

    Returns:
        Each group's current problems in an order by hash.
    """
    first, second = (set(pool) for pool in sources)
    free = hash_order({*problems} - first - second, *seed, "free")[: 2 * count]
    # A group takes at least as many free problems as the other's sources leave it short of.
    least, most = max(0, count - len(second), len(free) - count), min(count, len(free) - max(0, count - len(first)))
    assert least <= most, "the caller counts the problems first"
    share = min(max(len(free) // 2, least), most)
    chosen = []
    for number, (own, others) in enumerate(((free[:share], second), (free[share:], first)), start=1):
        more = hash_order(others, *seed, "sources", number)[: count - len(own)]
        chosen.append(tuple(hash_order([*own, *more], *seed, "order", number)))
    return chosen
