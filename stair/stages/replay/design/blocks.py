"""Source blocks: histories that a chain of shared source problems joins (appendix A.1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set
from typing import TypeVar

from stair.stages.replay.design.histories import History

T = TypeVar("T", bound=Hashable)


def source_blocks(histories: Iterable[History]) -> tuple[tuple[History, ...], ...]:
    """The blocks of a set of histories, sorted; the blocks of the longest histories serve all depths."""
    by_sources: dict[frozenset[str], list[History]] = {}
    for history in sorted(histories):
        by_sources.setdefault(frozenset(history.sources), []).append(history)
    return tuple(
        sorted(
            tuple(sorted(history for sources, group in by_sources.items() if sources <= block for history in group))
            for block in joined(by_sources)
        )
    )


def joined(sets: Iterable[Set[T]]) -> list[set[T]]:
    """The unions of sets that a chain of shared elements joins."""
    unions: list[set[T]] = []
    for one in sets:
        union, apart = set(one), []
        for other in unions:
            if union.isdisjoint(other):
                apart.append(other)
            else:
                union |= other
        unions = [*apart, union]
    return unions
