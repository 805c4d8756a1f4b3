"""The crossed design: which current problem is replayed after which history, and in which batch (appendix A.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from stair.config.replay import Replay
from stair.records.seeds import hash_order
from stair.stages.replay.design.histories import History, source_blocks, spread
from stair.stages.replay.design.source_sessions import choose_groups, choose_part

_ATTEMPTS = 5
"""Searches, each from other sessions, before the design is refused."""


@dataclass(frozen=True)
class Batch:
    """Current problems that share a history, at all its depths: the unit of work, with a file of its own."""

    group: int
    """1 or 2."""
    history: History | None
    """None is the empty history, which keeps the system prompt and the current turn's template."""
    number: int
    """Within the history. A group's batches of one number have equal problems, whatever the history."""
    problems: tuple[str, ...]
    in_problem_coverage: bool
    """True also for the empty history."""

    @property
    def name(self) -> str:
        """Names its file."""
        return f"group-{self.group}/{'empty' if self.history is None else self.history.name}/{self.number}"

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

    The history coverage has all its histories, the problem coverage all its current problems. The latter begin with the
    former's, and batches never cross that border: so a history of either coverage has whole batches.
    """

    number: int
    """1 or 2."""
    history_coverage: Coverage
    problem_coverage: Coverage
    batch_problems: int

    def batches_of(self, history: History | None) -> tuple[Batch, ...]:
        """A history's batches; of the empty history, those of the references, one for each current problem."""
        every = history is None or history in self.problem_coverage.histories
        inner = len(self.history_coverage.problems)
        parts = self.problem_coverage.problems[:inner], self.problem_coverage.problems[inner:] if every else ()
        pieces = [
            part[start : start + self.batch_problems]
            for part in parts
            for start in range(0, len(part), self.batch_problems)
        ]
        return tuple(Batch(self.number, history, number, piece, every) for number, piece in enumerate(pieces))


@dataclass(frozen=True)
class Design:
    """Two groups that share no current problem and no source problem."""

    groups: tuple[Group, Group]

    def batches(self) -> Iterator[tuple[Batch, ...]]:
        """All work in its order, by history: each group's references, then its histories."""
        for group in self.groups:
            for history in (None, *group.history_coverage.histories):
                yield group.batches_of(history)

    def references(self) -> tuple[str, ...]:
        """The current problems, each of which is replayed once without history."""
        return tuple(problem for group in self.groups for problem in group.problem_coverage.problems)


def crossed_design(
    sessions: Mapping[str, Sequence[str]], samples: Mapping[str, Sequence[int]], replay: Replay
) -> Design:
    """The design of a schedule, a function of names: the order in which sessions and samples come does not matter.

    Sessions are chosen first, then their paths, then current problems: any of the schedule but their own group's sources.

    Args:
        sessions: each session's problems, in the order of turns.
        samples: the numbers of each session's paths whose first `replay.depth` turns are complete.
        replay: all numbers of the design, and the seed of all choices and orders.

    Raises:
        ValueError: the data cannot meet the numbers; the message has the needed and the present ones.
    """
    paths = {
        session: [History(session, sample, tuple(sessions[session][: replay.depth])) for sample in sorted(set(numbers))]
        for session, numbers in sorted(samples.items())
        if numbers
    }
    everything = {problem for problems in sessions.values() for problem in problems}
    _check_counts(paths, len(everything), replay)
    histories = _choose_histories(paths, replay)
    sources = [{problem for history in many for problem in history.sources} for many, _ in histories]
    currents = choose_problems(everything, sources, replay.problem_coverage.current_problems, replay.seed, "problems")
    inner = replay.history_coverage.current_problems
    first, second = (
        Group(number, Coverage(chosen[:inner], many), Coverage(chosen, few), replay.batch_problems)
        for number, ((many, few), chosen) in enumerate(zip(histories, currents, strict=True), start=1)
    )
    return Design((first, second))


def _check_counts(paths: Mapping[str, Sequence[History]], problems: int, replay: Replay) -> None:
    """Counts that need no search."""
    wanted = [group.history_coverage for group in replay.groups]
    current = replay.problem_coverage.current_problems
    sources = sum(one.source_problems for one in wanted)
    for needed, there, what in (
        (sum(one.sessions for one in wanted), len(paths), f"sessions with a path of {replay.depth} complete turns"),
        (
            2 * replay.history_coverage.histories,
            sum(map(len, paths.values())),
            f"histories (paths of {replay.depth} complete turns)",
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


Chosen = tuple[tuple[History, ...], tuple[History, ...]]
"""A group's histories: those of the history coverage, and those of the problem coverage among them."""


def _choose_histories(paths: Mapping[str, Sequence[History]], replay: Replay) -> list[Chosen]:
    """Each group's histories; another attempt starts from other sessions."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            groups = choose_groups(paths, replay, replay.seed, "groups", attempt)
            return [
                _choose_of_group(number, {session: paths[session] for session in sessions}, replay, attempt)
                for number, sessions in enumerate(groups, start=1)
            ]
        except ValueError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _choose_of_group(number: int, paths: Mapping[str, Sequence[History]], replay: Replay, attempt: int) -> Chosen:
    seed = replay.seed, attempt
    wide, narrow = replay.history_coverage.histories, replay.problem_coverage.histories
    many = spread(chain.from_iterable(paths.values()), wide, *seed, "history coverage", number)
    kept = {session: [history for history in many if history.session == session] for session in paths}
    try:
        part = choose_part(kept, replay.groups[number - 1].problem_coverage, narrow, *seed, "part", number)
    except ValueError as error:
        raise ValueError(f"group {number}: {error}") from None
    few = spread(chain.from_iterable(kept[session] for session in part), narrow, *seed, "problem coverage", number)
    return many, few


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
