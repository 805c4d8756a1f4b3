"""Histories: sampled paths of sessions, which of them represent their session, and the source blocks that they form."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import chain, zip_longest

from stair.records.seeds import hash_order


@dataclass(frozen=True, order=True)
class History:
    """The first turns of a session's sampled path; the prefixes of every depth are of one history."""

    session: str
    sample: int
    sources: tuple[str, ...]
    """The problems of its turns, in order."""

    @property
    def name(self) -> str:
        """Its identity within a schedule."""
        return f"{self.session}-{self.sample}"


def spread(histories: Iterable[History], count: int, *seed: str | int) -> tuple[History, ...]:
    """Chooses histories evenly over their sessions: one of each, then a second one, until there are enough.

    Sessions, and the paths of each, come in an order by hash, so the last round leaves out sessions by hash.
    """
    paths: dict[str, list[History]] = {}
    for history in sorted(histories):
        paths.setdefault(history.session, []).append(history)
    rounds = zip_longest(
        *(
            hash_order(paths[session], *seed, "paths", key=[history.name for history in paths[session]])
            for session in hash_order(paths, *seed, "sessions")
        )
    )
    chosen = [history for history in chain.from_iterable(rounds) if history is not None][:count]
    return tuple(sorted(chosen))


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


def joined(sets: Iterable[Set[str]]) -> list[set[str]]:
    """The unions of sets that a chain of shared elements joins."""
    unions: list[set[str]] = []
    for one in sets:
        union, apart = set(one), []
        for other in unions:
            if union.isdisjoint(other):
                apart.append(other)
            else:
                union |= other
        unions = [*apart, union]
    return unions
