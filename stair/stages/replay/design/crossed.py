"""The crossed design: which current problem is replayed after which history (appendix A.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from stair.config.replay import Replay
from stair.records.seeds import hash_order
from stair.stages.replay.design.histories import History, source_blocks, spread

_DRAWS = 2000
"""Draws before the design is refused. The paper's numbers of sessions and blocks need about 30."""


@dataclass(frozen=True)
class HistoryWork:
    """A history, at all its depths, with its current problems: the unit of work, with a file of its own."""

    group: int
    """1 or 2."""
    history: History | None
    """None is the empty history, which keeps the system prompt and the current turn's template."""
    problems: tuple[str, ...]
    in_problem_coverage: bool
    """True also for the empty history."""

    @property
    def name(self) -> str:
        """Names its file."""
        return f"group-{self.group}/{'empty' if self.history is None else self.history.name}"

    def depths(self, deepest: int) -> range:
        """The depths of its cells; 0 is the empty history."""
        return range(1) if self.history is None else range(1, deepest + 1)

    def has_reads(self, depth: int, deepest: int) -> bool:
        """Whether reads are measured at a depth."""
        return self.in_problem_coverage and depth in (0, deepest)


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

    The history coverage has all its histories, the problem coverage all its current problems, which begin with the former's.
    """

    number: int
    """1 or 2."""
    history_coverage: Coverage
    problem_coverage: Coverage

    def work(self) -> Iterator[HistoryWork]:
        """The references, one for each current problem, then the histories."""
        every = self.problem_coverage
        yield HistoryWork(self.number, None, every.problems, True)
        for history in self.history_coverage.histories:
            inside = history in every.histories
            yield HistoryWork(self.number, history, (every if inside else self.history_coverage).problems, inside)


@dataclass(frozen=True)
class Design:
    """Two groups that share no current problem and no source problem."""

    groups: tuple[Group, Group]

    @property
    def depth(self) -> int:
        """Completed turns of the histories."""
        return len(self.groups[0].history_coverage.histories[0].sources)

    def work(self) -> Iterator[HistoryWork]:
        """All work in its order, by group."""
        for group in self.groups:
            yield from group.work()

    def references(self) -> tuple[str, ...]:
        """The current problems, each of which is replayed once without history."""
        return tuple(problem for group in self.groups for problem in group.problem_coverage.problems)


def crossed_design(
    sessions: Mapping[str, Sequence[str]], samples: Mapping[str, Sequence[int]], replay: Replay
) -> Design:
    """The design of a schedule, a function of names: the order in which sessions and samples come does not matter.

    The problems are split in two halves. A group's sessions have all their sources in one half; its current problems are of
    the other. The first draw with the configured numbers of sessions, histories and blocks is the design.

    Args:
        sessions: each session's problems, in the order of turns.
        samples: the numbers of each session's paths whose first `replay.depth` turns are complete.
        replay: all numbers of the design, and the seed of all choices and orders.

    Raises:
        ValueError: the data has too few problems, or no draw has the numbers; the message has the needed and the present ones.
    """
    paths = {
        session: [History(session, sample, tuple(sessions[session][: replay.depth])) for sample in sorted(set(numbers))]
        for session, numbers in samples.items()
        if numbers
    }
    problems = {problem for each in sessions.values() for problem in each}
    current = replay.problem_coverage.current_problems
    if (there := len(problems) // 2) < current:
        raise ValueError(f"the design needs {current} current problems in each half of the problems; there are {there}")
    missed: ValueError | None = None
    for attempt in range(_DRAWS):
        try:
            return _drawn(problems, paths, replay, attempt)
        except _Missed as error:
            missed = error
    raise ValueError(f"none of {_DRAWS} draws has the design's numbers; in the last one, {missed}")


class _Missed(ValueError):
    """A draw without the design's numbers."""


def _drawn(problems: Collection[str], paths: Mapping[str, Sequence[History]], replay: Replay, attempt: int) -> Design:
    seed = replay.seed, attempt
    order = hash_order(problems, *seed, "halves")
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    sessions = hash_order(paths, *seed, "sessions")
    first, second = (
        _group(
            number, [each for each in sessions if pool.issuperset(paths[each][0].sources)], others, paths, replay, seed
        )
        for number, pool, others in ((1, {*halves[0]}, halves[1]), (2, {*halves[1]}, halves[0]))
    )
    return Design((first, second))


def _group(
    number: int,
    sessions: Sequence[str],
    problems: Sequence[str],
    paths: Mapping[str, Sequence[History]],
    replay: Replay,
    seed: tuple[str | int, ...],
) -> Group:
    """A group of the first of these sessions and problems."""
    wanted, wide, narrow = replay.groups[number - 1], replay.history_coverage, replay.problem_coverage
    chosen = sessions[: wanted.history_coverage.sessions]
    part = chosen[: wanted.problem_coverage.sessions]
    many = spread(chain.from_iterable(paths[each] for each in chosen), wide.histories, *seed, "history coverage")
    few = spread((each for each in many if each.session in part), narrow.histories, *seed, "problem coverage")
    inner, outer = (tuple(problems[: coverage.current_problems]) for coverage in (wide, narrow))
    group = Group(number, Coverage(inner, many), Coverage(outer, few))
    for what, there, needed in (
        ("sessions with all sources in its half", len(chosen), wanted.history_coverage.sessions),
        ("histories", len(many), wide.histories),
        ("histories in the problem coverage", len(few), narrow.histories),
        ("source blocks in the problem coverage", len(group.problem_coverage.blocks), wanted.problem_coverage.blocks),
    ):
        if there != needed:
            raise _Missed(f"group {number} has {there} {what}, and {needed} are needed")
    return group
