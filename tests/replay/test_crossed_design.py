"""Crossed designs: the paper's over the evaluation's own schedules, small ones, and data that cannot fill one."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stair.config.crossed_sizes import Crossed, GroupSizes, Sizes, Sources
from stair.stages.replay.design.crossed import Design, crossed_design
from stair.stages.sessions.evaluation_sessions import evaluation_sessions
from tests.replay.design_rules import all_batches, broken_rules, sizes_of

ROOT = Path(__file__).parents[2]
PAPER = sizes_of("paper")


def schedule(count: int, seed: str = "seed") -> dict[str, list[str]]:
    """The evaluation's own sessions of as many problems."""
    by_session: dict[str, list[str]] = {}
    for row in evaluation_sessions([f"p{number:04d}" for number in range(count)], "math500", seed):
        by_session.setdefault(row["session_id"], []).append(row["problem_id"])
    return by_session


def four_paths(sessions: dict[str, list[str]]) -> dict[str, list[int]]:
    """Every path complete."""
    return {session: [0, 1, 2, 3] for session in sessions}


def checked(sessions: dict[str, list[str]], sizes: Sizes, seed: str = "replay") -> Design:
    """The design of complete sessions, which keeps every rule."""
    design = crossed_design(sessions, four_paths(sessions), sizes, seed)
    assert broken_rules(design, sessions, four_paths(sessions), sizes) == []
    return design


@pytest.mark.parametrize("seed", range(100))
def test_the_papers_design_over_the_evaluations_schedules(seed: int) -> None:
    checked(schedule(500, f"schedule {seed}"), PAPER)


def test_the_papers_counts() -> None:
    design = checked(schedule(500), PAPER)
    cells = set(design.cells())
    assert len(cells) == len(list(design.cells())) == 49_152 + 12_288 == 61_440
    assert len(design.references()) == 256
    batches = [batch for group in design.groups for batch in all_batches(group)]
    assert {len(batch.problems) for batch in batches} == {16}
    assert 3 * 16 * len(batches) == 61_440
    assert [len(group.problem_coverage.blocks) for group in design.groups] == [17, 17]
    # 33 sessions have 132 paths: four sessions give three, and all others four.
    paths = [history.session for history in design.groups[0].history_coverage.histories]
    assert sorted(map(paths.count, set(paths))) == [3] * 4 + [4] * 29
    # Enough problems are nobody's source.
    sources = {problem for group in design.groups for problem in group.history_coverage.sources}
    assert not sources & set(design.references())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("run", "problems", "cells", "references"), [("tiny", 64, 4608, 64), ("smoke", 8, 72, 8)])
def test_the_embedded_runs_designs(run: str, problems: int, cells: int, references: int, seed: int) -> None:
    design = checked(schedule(problems, f"schedule {seed}"), sizes_of(run))
    assert len(list(design.cells())) == cells
    assert len(design.references()) == references
    if run == "tiny":
        assert [len(group.problem_coverage.blocks) for group in design.groups] == [8, 8]


def test_a_design_depends_on_names_alone() -> None:
    sessions = schedule(500)
    design = crossed_design(sessions, four_paths(sessions), PAPER, "replay")
    shuffled = list(sessions)
    random.Random(1).shuffle(shuffled)
    again = crossed_design(
        {session: sessions[session] for session in shuffled},
        {session: [2, 0, 3, 1] for session in reversed(shuffled)},
        PAPER,
        "replay",
    )
    assert again == design
    assert list(again.cells()) == list(design.cells())
    assert crossed_design(sessions, four_paths(sessions), PAPER, "another") != design


def test_batches_have_whole_problems_of_one_coverage_and_a_short_last_one() -> None:
    sizes = replace(PAPER, batch_problems=24)
    design = checked(schedule(500), sizes)
    group = design.groups[0]
    assert [len(batch.problems) for batch in group.reference_batches()] == [24, 24, 16] * 2
    inner = group.problem_coverage.histories[0]
    outer = next(h for h in group.history_coverage.histories if h not in group.problem_coverage.histories)
    assert [len(group.batches_of(history)) for history in (inner, outer)] == [6, 3]


def test_paths_that_are_missing_are_no_histories() -> None:
    sessions = schedule(500)
    samples = {session: [0, 1, 3] if session[-1] in "02468" else [0, 1, 2, 3] for session in sessions}
    sizes = replace(PAPER, history_coverage=Crossed(64, 120))
    design = crossed_design(sessions, samples, sizes, "replay")
    assert broken_rules(design, sessions, samples, sizes) == []


def tried(
    sessions: dict[str, list[str]], samples: dict[str, list[int]], sizes: Sizes, seed: str
) -> tuple[Design | None, str]:
    """The design, or why there is none."""
    try:
        return crossed_design(sessions, samples, sizes, seed), ""
    except ValueError as error:
        return None, str(error)


def possible(sessions: dict[str, list[str]], samples: dict[str, list[int]], sizes: Sizes) -> bool:
    """Whether any sessions meet the numbers: all are tried."""
    sources = {session: set(problems[: sizes.depth]) for session, problems in sessions.items()}
    with_paths = [session for session in sessions if samples[session]]
    asked = sizes.groups

    def pool(chosen: tuple[str, ...]) -> set[str]:
        return set().union(*(sources[session] for session in chosen))

    def blocks(chosen: tuple[str, ...]) -> int:
        left, count = set(chosen), 0
        while left:
            reached, count = sources[left.pop()], count + 1
            while joining := {session for session in left if sources[session] & reached}:
                reached, left = reached | pool(tuple(joining)), left - joining
        return count

    def has_part(chosen: tuple[str, ...], group: GroupSizes) -> bool:
        # Each session has all its four paths here, so paths suffice.
        return any(
            len(pool(part)) == group.problem_coverage.source_problems and blocks(part) == group.blocks
            for part in combinations(chosen, group.problem_coverage.sessions)
        )

    first, second = asked
    for one in combinations(with_paths, first.history_coverage.sessions):
        if len(pool(one)) != first.history_coverage.source_problems or not has_part(one, first):
            continue
        for other in combinations(with_paths, second.history_coverage.sessions):
            if (
                len(pool(other)) == second.history_coverage.source_problems
                and not pool(one) & pool(other)
                and has_part(other, second)
            ):
                return True
    return False


@st.composite
def small_sizes(draw: st.DrawFn) -> Sizes:
    """Sizes for few sessions of which each gives all its four paths."""
    depth = draw(st.integers(1, 3))
    groups, fewest = [], []
    for _ in range(2):
        sessions = draw(st.integers(1, 3))
        part = draw(st.integers(1, sessions))
        sources = draw(st.integers(depth, depth * sessions))
        inner = draw(st.integers(depth, min(sources, depth * part)))
        blocks = draw(st.integers(1, part))
        groups.append(GroupSizes(Sources(sessions, sources), Sources(part, inner), blocks))
        fewest.append((sessions, part))
    assume(len({sessions for sessions, _ in fewest}) == 1)
    current = draw(st.integers(1, 3))
    wide = Crossed(draw(st.integers(1, current)), 4 * fewest[0][0])
    narrow = Crossed(current, draw(st.integers(max(part for _, part in fewest), 4 * min(part for _, part in fewest))))
    try:
        return Sizes(depth, draw(st.integers(1, 3)), wide, narrow, (groups[0], groups[1]))
    except ValueError:
        assume(False)
        raise


@settings(max_examples=80, deadline=None)
@given(count=st.integers(4, 11), sizes=small_sizes(), seed=st.text(max_size=3))
def test_a_small_design_is_found_where_there_is_one(count: int, sizes: Sizes, seed: str) -> None:
    sessions = schedule(count, seed)
    samples = four_paths(sessions)
    design, refused = tried(sessions, samples, sizes, seed)
    if design is not None:
        assert broken_rules(design, sessions, samples, sizes) == []
    elif "too few" not in refused:
        assert "found" in refused
        assert "\n" not in refused
        assert not possible(sessions, samples, sizes)


@settings(max_examples=60, deadline=None)
@given(
    sessions=st.integers(1, 5),
    current=st.integers(1, 20),
    histories=st.integers(1, 20),
    batch=st.integers(1, 7),
    data=st.data(),
)
def test_designs_of_disjoint_sessions(
    sessions: int, current: int, histories: int, batch: int, data: st.DataObject
) -> None:
    """Sessions that share nothing: what is left to chance are paths and current problems."""
    schedule_ = {f"s{n}": [f"p{n}-{turn}" for turn in range(4)] for n in range(2 * sessions + 3)}
    samples = {name: data.draw(st.sets(st.integers(0, 5), min_size=2)) for name in schedule_}
    histories = max(histories, sessions)
    few = data.draw(st.integers(sessions, histories))
    group = GroupSizes(Sources(sessions, 3 * sessions), Sources(sessions, 3 * sessions), sessions)
    wide = Crossed(data.draw(st.integers(1, current)), histories)
    sizes = Sizes(3, batch, wide, Crossed(current, few), (group, group))
    ordered = {name: sorted(numbers) for name, numbers in samples.items()}
    design, refused = tried(schedule_, ordered, sizes, "seed")
    if design is not None:
        assert broken_rules(design, schedule_, ordered, sizes) == []
    elif "current problems" in refused:
        assert 2 * current > 4 * len(schedule_)
    else:
        assert min(map(len, ordered.values())) * sessions < histories
        assert "histories" in refused


def test_the_checks_see_a_broken_design() -> None:
    sessions, sizes = schedule(64), sizes_of("tiny")
    samples = four_paths(sessions)
    design = crossed_design(sessions, samples, sizes, "replay")
    first, second = design.groups
    swapped = replace(first, problem_coverage=replace(first.problem_coverage, problems=first.problem_coverage.sources))
    for broken in (
        Design((second, second)),
        Design((swapped, second)),
        Design((replace(first, depth=2), second)),
        Design((replace(first, history_coverage=first.problem_coverage), second)),
    ):
        assert broken_rules(broken, sessions, samples, sizes) != []
    assert broken_rules(design, sessions, samples, replace(sizes, batch_problems=8)) != []
    assert broken_rules(design, sessions, samples, sizes) == []


@pytest.mark.parametrize(
    ("count", "changes", "message"),
    [
        (60, {}, "needs 65 sessions with a path of 3 complete turns; there are 60: 5 too few"),
        (
            150,
            {},
            "needs 164 source problems, none of which both groups have; there are 150: 14 too few",
        ),
        (
            200,
            {},
            "needs 256 current problems, none of which both groups have; there are 200: 56 too few",
        ),
        (
            200,
            {"problem_coverage": Crossed(120, 32), "history_coverage": Crossed(64, 128)},
            "needs 240 current problems, .*there are 200: 40 too few",
        ),
    ],
)
def test_data_that_cannot_fill_a_design_is_refused(count: int, changes: dict[str, Crossed], message: str) -> None:
    sessions = schedule(count)
    with pytest.raises(ValueError, match=message):
        crossed_design(sessions, four_paths(sessions), replace(PAPER, **changes), "replay")


def test_paths_that_are_too_few_are_refused() -> None:
    sessions = schedule(100)
    with pytest.raises(
        ValueError, match=r"needs 256 histories \(paths of 3 complete turns\); there are 200: 56 too few"
    ):
        crossed_design(sessions, {session: [0, 1] for session in sessions}, PAPER, "replay")


def test_own_sources_are_no_current_problems() -> None:
    sessions = {f"s{n}": [f"p{n}-{turn}" for turn in range(3)] for n in range(2)}
    group = GroupSizes(Sources(1, 3), Sources(1, 3), 1)
    samples = {session: [0] for session in sessions}
    design = crossed_design(sessions, samples, Sizes(3, 2, Crossed(3, 1), Crossed(3, 1), (group, group)), "seed")
    first, second = design.groups
    assert set(first.problem_coverage.problems) == set(second.history_coverage.sources)
    one = {"s0": sessions["s0"], "s1": sessions["s1"], "s2": ["p0-0", "p0-1", "p0-2"]}
    wide = Sizes(3, 2, Crossed(1, 1), Crossed(3, 1), (group, group))
    assert broken_rules(crossed_design(one, samples, wide, "seed"), one, samples, wide) == []
    with pytest.raises(ValueError, match=r"needs 8 current problems, .*there are 6: 2 too few"):
        crossed_design(sessions, samples, Sizes(3, 2, Crossed(1, 1), Crossed(4, 1), (group, group)), "seed")
    # Twelve problems: eight sources of the first group leave it four.
    sessions = {"s0": list("abc"), "s1": list("cde"), "s2": list("fgh"), "s3": list("ijkl")}
    sizes = Sizes(3, 2, Crossed(1, 3), Crossed(5, 1), (GroupSizes(Sources(3, 8), Sources(1, 3), 1), group))
    with pytest.raises(
        ValueError, match=r"needs 13 problems, 8 as sources of group 1 and 5 others .*there are 12: 1 too few"
    ):
        crossed_design(sessions, four_paths(sessions), sizes, "seed")


def test_no_sessions_with_the_numbers_are_refused_with_the_closest() -> None:
    # All orders of four problems: no two sessions are disjoint.
    sessions = {f"s{n}": list(order) for n, order in enumerate(permutations("abcd"))} | {"t": list("efgh")}
    samples = four_paths(sessions)
    sessions["no path"] = list("ijkl")
    group = GroupSizes(Sources(1, 3), Sources(1, 3), 1)
    pair = GroupSizes(Sources(2, 6), Sources(2, 6), 2)
    sizes = Sizes(3, 2, Crossed(1, 2), Crossed(1, 2), (pair, group))
    message = (
        r"no groups of 2 and 1 sessions found among 25 that have 6 and 3 source problems, none in both, and 2 histories "
        r"each; the closest have \d and 3 source problems, \d in both, and 8 and 4 histories"
    )
    with pytest.raises(ValueError, match=message):
        crossed_design(sessions, samples, sizes, "seed")


def test_a_part_that_is_not_there_is_refused_with_the_closest() -> None:
    # Any two of the first group's sessions share a problem, so no two have six.
    sessions = {"a": list("abc"), "b": list("ade"), "c": list("afg"), "z": list("xyz")}
    asked = GroupSizes(Sources(3, 7), Sources(2, 6), 2)
    sizes = Sizes(3, 2, Crossed(1, 3), Crossed(1, 2), (asked, GroupSizes(Sources(1, 3), Sources(1, 3), 1)))
    message = (
        "group 1: no 2 of a group's 3 sessions found that have 6 source problems, 2 blocks and 2 histories; "
        "the closest have 5, 1 and 2"
    )
    with pytest.raises(ValueError, match=message):
        crossed_design(sessions, four_paths(sessions), sizes, "seed")


def test_paths_of_a_session_that_is_not_scheduled_are_refused() -> None:
    with pytest.raises(ValueError, match="paths of s-9, which is no session"):
        crossed_design(schedule(8), {"s-9": [0]}, PAPER, "seed")


def test_a_session_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="session s has no 3 distinct problems: a, b, a"):
        crossed_design({"s": ["a", "b", "a"]}, {"s": [0]}, PAPER, "seed")
