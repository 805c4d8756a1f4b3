"""A design's rules, checked without the library's own notions: every sentence of appendix A.1, in loops over cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from stair.config.replay import Replay, ReplayGroup, SourceSizes
from stair.config.resolve import resolve
from stair.stages.replay.design.crossed import Coverage, Design

Sessions = Mapping[str, Sequence[str]]
Samples = Mapping[str, Sequence[int]]
Cell = tuple[str, str, int, int]
"""A current problem, a session, a sample and a depth."""


def replay_of(run: str) -> Replay:
    """The replay of a run's configuration."""
    replay = resolve(Path(__file__).parents[2], {"run": run}).replay
    assert replay is not None
    return replay


def blocks_of(members: Sequence[tuple[str, int]], sessions: Sessions, depth: int) -> set[frozenset[tuple[str, int]]]:
    """Histories (session, sample) by transitive closure: whoever shares a problem takes the smaller label, until none changes."""
    label = {member: number for number, member in enumerate(members)}
    changed = True
    while changed:
        changed = False
        by_problem: dict[str, int] = {}
        for member in members:
            for problem in sessions[member[0]][:depth]:
                by_problem[problem] = min(by_problem.get(problem, label[member]), label[member])
        for member in members:
            least = min(by_problem[problem] for problem in sessions[member[0]][:depth])
            if least < label[member]:
                label[member], changed = least, True
    return {frozenset(m for m in members if label[m] == one) for one in set(label.values())}


def broken_rules(design: Design, sessions: Sessions, samples: Samples, sizes: Replay) -> list[str]:
    """What a design does wrong, in words."""
    violations = []
    everything = {problem for problems in sessions.values() for problem in problems}
    currents: list[set[str]] = []
    pools: list[set[str]] = []
    wanted: set[Cell] = set()
    measured: list[Cell] = []
    references: Counter[str] = Counter()
    for number, (group, asked) in enumerate(zip(design.groups, sizes.groups, strict=True), start=1):
        here = f"group {number}"
        violations += [f"{here}: {broken}" for broken in _coverages(design, number, sessions, samples, sizes, asked)]
        many, few = group.history_coverage, group.problem_coverage
        currents.append(set(few.problems))
        pools.append({p for h in many.histories for p in sessions[h.session][: sizes.depth]})
        if not set(few.problems) <= everything:
            violations.append(f"{here}: a current problem is not of the benchmark")
        # Every cell of both coverages once, whichever coverage asks for it.
        for coverage in (many, few):
            for history, depth in product(coverage.histories, range(1, sizes.depth + 1)):
                if set(sessions[history.session][:depth]) & set(coverage.problems):
                    violations.append(
                        f"{here}: a problem is current after {history.name}, which has it, at depth {depth}"
                    )
                wanted.update((problem, history.session, history.sample, depth) for problem in coverage.problems)
        work = [each for each in design.work() if each.group == number]
        for each in work:
            if each.history is None:
                references.update(each.problems)
                continue
            session, sample = each.history.session, each.history.sample
            for depth in range(1, sizes.depth + 1):
                measured += [(problem, session, sample, depth) for problem in each.problems]
        if len({each.name for each in work}) != len(work):
            violations.append(f"{here}: two histories have one name")
    if currents[0] & currents[1]:
        violations.append("groups share current problems")
    if pools[0] & pools[1]:
        violations.append("groups share source problems")
    if references != Counter(currents[0] | currents[1]):
        violations.append("references are not one for each current problem")
    if len(measured) != len(wanted) or set(measured) != wanted:
        violations.append("the work is not the replays of both coverages, once each")
    return violations


def _coverages(
    design: Design, number: int, sessions: Sessions, samples: Samples, sizes: Replay, asked: ReplayGroup
) -> list[str]:
    violations = []
    group = design.groups[number - 1]
    many, few = group.history_coverage, group.problem_coverage
    for name, coverage, crossed, sources in (
        ("history coverage", many, sizes.history_coverage, asked.history_coverage),
        ("problem coverage", few, sizes.problem_coverage, asked.problem_coverage),
    ):
        violations += [f"{name}: {broken}" for broken in _coverage(coverage, sessions, samples, sizes.depth, sources)]
        counts = (len(coverage.problems), len(coverage.histories))
        if counts != (crossed.current_problems, crossed.histories):
            violations.append(f"{name}: {counts[0]} x {counts[1]}")
    if len(few.blocks) != asked.problem_coverage.blocks:
        violations.append(f"problem coverage has {len(few.blocks)} blocks, not {asked.problem_coverage.blocks}")
    shared = set(product(many.problems, many.histories)) & set(product(few.problems, few.histories))
    if len(shared) != sizes.history_coverage.current_problems * sizes.problem_coverage.histories:
        violations.append(f"coverages share {len(shared)} cells a depth")
    return violations


def _coverage(coverage: Coverage, sessions: Sessions, samples: Samples, depth: int, asked: SourceSizes) -> list[str]:
    violations = []
    paths = [(history.session, history.sample) for history in coverage.histories]
    if len(set(paths)) != len(paths) or len(set(coverage.problems)) != len(coverage.problems):
        violations.append("repeats a history or a problem")
    if any(sample not in samples.get(session, ()) for session, sample in paths):
        violations.append("a history is a path that there is not")
    if any(tuple(history.sources) != tuple(sessions[history.session][:depth]) for history in coverage.histories):
        violations.append("a history has other sources than its session")
    named = {session for session, _ in paths}
    sources = {problem for session in named for problem in sessions[session][:depth]}
    if len(named) != asked.sessions:
        violations.append(f"{len(named)} sessions")
    if named != set(coverage.sessions) or sources != set(coverage.sources):
        violations.append("it tells other sessions or source problems")
    if {frozenset((h.session, h.sample) for h in block) for block in coverage.blocks} != blocks_of(
        paths, sessions, depth
    ):
        violations.append("blocks are not the transitive closure over shared source problems")
    # One path of each session, then a second one, and so on: none has two more than a session with equally many paths.
    given = Counter(session for session, _ in paths)
    for one, other in product(named, named):
        if given[one] > given[other] + 1 and len(samples[one]) == len(samples[other]):
            violations.append(f"paths are spread unevenly: {given[one]} of {one}, {given[other]} of {other}")
    return violations
