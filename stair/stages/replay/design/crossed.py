"""The crossed design: which current problem is replayed after which history, and in which batch (appendix A.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from stair.config.crossed_sizes import Sizes
from stair.records.seeds import hash_order
from stair.stages.replay.design.histories import History, source_blocks, spread
from stair.stages.replay.design.source_sessions import choose_groups, choose_part

_ATTEMPTS = 5
"""Searches, each from other sessions, before the design is refused."""


class Cell(NamedTuple):
    """One replay: a current problem after the first `depth` turns of a history."""

    problem: str
    history: History
    depth: int


@dataclass(frozen=True)
class Batch:
    """Current problems that share a history, at all its depths; the unit of work that is stored."""

    history: History | None
    """None is the empty history, which keeps the system prompt and the current turn's template."""
    number: int
    """Within the history. A group's batches of one number have equal problems, whatever the history."""
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """Current problems crossed with histories: every pair is replayed, at every depth."""

    problems: tuple[str, ...]
    histories: tuple[History, ...]

    @cached_property
    def sessions(self) -> tuple[str, ...]:
        """The sessions that the histories come from, sorted."""
        return tuple(sorted({history.session for history in self.histories}))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The distinct problems of the longest histories, sorted."""
        return tuple(sorted({problem for history in self.histories for problem in history.sources}))

    @cached_property
    def blocks(self) -> tuple[tuple[History, ...], ...]:
        """Histories that shared source problems join."""
        return source_blocks(self.histories)


@dataclass(frozen=True)
class Group:
    """One group's two coverages.

    The history coverage has all its histories, the problem coverage all its current problems. The latter begin with the
    former's, and batches never cross that border: so a history of either coverage has whole batches.
    """

    history_coverage: Coverage
    problem_coverage: Coverage
    depth: int
    batch_problems: int

    @property
    def shared(self) -> Coverage:
        """The cells that both coverages have."""
        return Coverage(self.history_coverage.problems, self.problem_coverage.histories)

    def batches_of(self, history: History) -> tuple[Batch, ...]:
        """A history's batches, at all its depths."""
        whole = history in self._widely_crossed
        return tuple(
            Batch(history, number, problems)
            for number, problems in enumerate(self._parts)
            if whole or number < self._shared_parts
        )

    def reference_batches(self) -> tuple[Batch, ...]:
        """The references without history: one for each current problem."""
        return tuple(Batch(None, number, problems) for number, problems in enumerate(self._parts))

    def cells(self) -> Iterator[Cell]:
        """The replays of both coverages, each once, by history, depth and problem."""
        for history in self.history_coverage.histories:
            problems = [problem for batch in self.batches_of(history) for problem in batch.problems]
            for depth in range(1, self.depth + 1):
                for problem in problems:
                    yield Cell(problem, history, depth)

    @cached_property
    def _widely_crossed(self) -> frozenset[History]:
        return frozenset(self.problem_coverage.histories)

    @cached_property
    def _parts(self) -> tuple[tuple[str, ...], ...]:
        problems, shared = self.problem_coverage.problems, len(self.history_coverage.problems)
        return (*_pieces(problems[:shared], self.batch_problems), *_pieces(problems[shared:], self.batch_problems))

    @cached_property
    def _shared_parts(self) -> int:
        return len(_pieces(self.history_coverage.problems, self.batch_problems))


@dataclass(frozen=True)
class Design:
    """Two groups that share no current problem and no source problem."""

    groups: tuple[Group, Group]

    def cells(self) -> Iterator[Cell]:
        """All replays with a history, each once."""
        for group in self.groups:
            yield from group.cells()

    def references(self) -> tuple[str, ...]:
        """The current problems, each of which is replayed once without history."""
        return tuple(problem for group in self.groups for problem in group.problem_coverage.problems)


class _Chosen(NamedTuple):
    """One group's histories."""

    history_coverage: tuple[History, ...]
    problem_coverage: tuple[History, ...]
    """A part of the former."""


def crossed_design(
    sessions: Mapping[str, Sequence[str]], samples: Mapping[str, Sequence[int]], sizes: Sizes, *seed: str | int
) -> Design:
    """The design of a schedule, a function of names: the order in which sessions and samples come does not matter.

    Sessions are chosen first, then their paths, then current problems: any of the schedule but their own group's sources.

    Args:
        sessions: each session's problems, in the order of turns.
        samples: the numbers of each session's paths whose first `sizes.depth` turns are complete.
        sizes: all numbers of the design.
        seed: names all choices and orders.

    Raises:
        ValueError: the data cannot meet the numbers; the message has the needed and the present ones.
    """
    if unknown := sorted(samples.keys() - sessions.keys()):
        raise ValueError(f"there are paths of {unknown[0]}, which is no session of the schedule")
    for session, problems in sessions.items():
        if len(set(problems[: sizes.depth])) < sizes.depth:
            raise ValueError(f"session {session} has no {sizes.depth} distinct problems: {', '.join(problems)}")
    paths = {
        session: [History(session, sample, tuple(sessions[session][: sizes.depth])) for sample in sorted(set(numbers))]
        for session, numbers in sorted(samples.items())
        if numbers
    }
    everything = {problem for problems in sessions.values() for problem in problems}
    _check_counts(paths, len(everything), sizes)
    histories = _choose_histories(paths, sizes, *seed)
    sources = [{problem for history in many for problem in history.sources} for many, _ in histories]
    currents = choose_problems(everything, sources, sizes.problem_coverage.current_problems, *seed, "problems")
    first, second = (
        Group(
            Coverage(chosen[: sizes.history_coverage.current_problems], many),
            Coverage(chosen, few),
            sizes.depth,
            sizes.batch_problems,
        )
        for (many, few), chosen in zip(histories, currents, strict=True)
    )
    return Design((first, second))


def _check_counts(paths: Mapping[str, Sequence[History]], problems: int, sizes: Sizes) -> None:
    """Counts that need no search."""
    wanted = [group.history_coverage for group in sizes.groups]
    current = sizes.problem_coverage.current_problems
    sources = sum(one.source_problems for one in wanted)
    for needed, there, what in (
        (sum(one.sessions for one in wanted), len(paths), f"sessions with a path of {sizes.depth} complete turns"),
        (
            2 * sizes.history_coverage.histories,
            sum(map(len, paths.values())),
            f"histories (paths of {sizes.depth} complete turns)",
        ),
        (sources, problems, "source problems, none of which both groups have"),
        (2 * current, problems, "current problems, none of which both groups have"),
        *(
            (
                one.source_problems + current,
                problems,
                f"problems, {one.source_problems} as sources of group {number} and {current} others as its current ones",
            )
            for number, one in enumerate(wanted, start=1)
        ),
    ):
        if needed > there:
            raise ValueError(f"the design needs {needed} {what}; there are {there}: {needed - there} too few")


def _choose_histories(paths: Mapping[str, Sequence[History]], sizes: Sizes, *seed: str | int) -> list[_Chosen]:
    """Each group's histories; another attempt starts from other sessions."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            groups = choose_groups(paths, sizes, *seed, "groups", attempt)
            return [
                _choose_of_group(number, {session: paths[session] for session in sessions}, sizes, *seed, attempt)
                for number, sessions in enumerate(groups, start=1)
            ]
        except ValueError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _choose_of_group(number: int, paths: Mapping[str, Sequence[History]], sizes: Sizes, *seed: str | int) -> _Chosen:
    wide, narrow = sizes.history_coverage.histories, sizes.problem_coverage.histories
    many = spread(chain.from_iterable(paths.values()), wide, *seed, "history coverage", number)
    kept = {session: [history for history in many if history.session == session] for session in paths}
    try:
        part = choose_part(kept, sizes.groups[number - 1], narrow, *seed, "part", number)
    except ValueError as error:
        raise ValueError(f"group {number}: {error}") from None
    few = spread(chain.from_iterable(kept[session] for session in part), narrow, *seed, "problem coverage", number)
    return _Chosen(many, few)


def _pieces(items: tuple[str, ...], size: int) -> list[tuple[str, ...]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def choose_problems(
    problems: Collection[str], sources: Sequence[Collection[str]], count: int, *seed: str | int
) -> list[tuple[str, ...]]:
    """`count` current problems for each of two groups, in an order by hash; none in both, none a source of its own group.

    Problems that are nobody's source are used up before the other group's sources, and shared equally where these suffice.
    `sources` are each group's source problems, which are disjoint. `seed` names the choice and the order.
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
