"""Crossed designs: the paper's over the evaluation's own schedules, small ones, and data that cannot fill one."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations, permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stair.config.replay import BlockSizes, CrossedSizes, Replay, ReplayGroup, SourceSizes
from stair.stages.replay.design.crossed import Design, crossed_design
from stair.stages.sessions.evaluation_sessions import evaluation_sessions
from tests.replay.design_rules import broken_rules, replay_of

PAPER = replay_of("paper")


def schedule(count: int, seed: str = "seed") -> dict[str, list[str]]:
    """The evaluation's own sessions of as many problems."""
    by_session: dict[str, list[str]] = {}
    for row in evaluation_sessions([f"p{number:04d}" for number in range(count)], "math500", seed):
        by_session.setdefault(row["session_id"], []).append(row["problem_id"])
    return by_session


def four_paths(sessions: dict[str, list[str]]) -> dict[str, list[int]]:
    """Every path complete."""
    return {session: [0, 1, 2, 3] for session in sessions}


def sizes_of(
    depth: int, batch: int, wide: tuple[int, int], narrow: tuple[int, int], *groups: tuple[int, int, int, int, int]
) -> Replay:
    """Current problems and histories of both coverages; of each group the sessions and sources of both, and the blocks."""
    history_coverage, problem_coverage = (
        CrossedSizes(current_problems=problems, histories=histories) for problems, histories in (wide, narrow)
    )
    first, second = (
        ReplayGroup(
            history_coverage=SourceSizes(sessions=sessions, source_problems=sources),
            problem_coverage=BlockSizes(sessions=part, source_problems=inner, blocks=blocks),
        )
        for sessions, sources, part, inner, blocks in groups
    )
    return Replay(
        models=("model",), benchmark="benchmark", layers=(0,), depth=depth, batch_problems=batch,
        history_coverage=history_coverage, problem_coverage=problem_coverage, groups=(first, second),
    )  # fmt: skip


def changed(sizes: Replay, **changes: object) -> Replay:
    return sizes.model_copy(update=changes)


def checked(sessions: dict[str, list[str]], sizes: Replay) -> Design:
    """The design of complete sessions, which keeps every rule."""
    design = crossed_design(sessions, four_paths(sessions), sizes)
    assert broken_rules(design, sessions, four_paths(sessions), sizes) == []
    return design


@pytest.mark.parametrize("seed", range(50))
def test_the_papers_design_over_the_evaluations_schedules(seed: int) -> None:
    checked(schedule(500, f"schedule {seed}"), PAPER)


def test_paths_are_spread_evenly_and_free_problems_suffice() -> None:
    design = checked(schedule(500), PAPER)
    # 33 sessions have 132 paths: four sessions give three, and all others four.
    paths = [history.session for history in design.groups[0].history_coverage.histories]
    assert sorted(map(paths.count, set(paths))) == [3] * 4 + [4] * 29
    sources = {problem for group in design.groups for problem in group.history_coverage.sources}
    assert not sources & set(design.references())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("run", "problems"), [("tiny", 64), ("smoke", 8)])
def test_the_embedded_runs_designs(run: str, problems: int, seed: int) -> None:
    checked(schedule(problems, f"schedule {seed}"), replay_of(run))


def test_a_design_depends_on_names_alone() -> None:
    sessions = schedule(500)
    design = crossed_design(sessions, four_paths(sessions), PAPER)
    shuffled = list(sessions)
    random.Random(1).shuffle(shuffled)
    again = crossed_design(
        {session: sessions[session] for session in shuffled},
        {session: [2, 0, 3, 1] for session in reversed(shuffled)},
        PAPER,
    )
    assert again == design
    assert crossed_design(sessions, four_paths(sessions), changed(PAPER, seed="another")) != design


def test_batches_have_whole_problems_of_one_coverage_and_a_short_last_one() -> None:
    group = checked(schedule(500), changed(PAPER, batch_problems=24)).groups[0]
    assert [len(batch.problems) for batch in group.batches_of(None)] == [24, 24, 16] * 2
    inner = group.problem_coverage.histories[0]
    outer = next(h for h in group.history_coverage.histories if h not in group.problem_coverage.histories)
    assert [len(group.batches_of(history)) for history in (inner, outer)] == [6, 3]


def test_paths_that_are_missing_are_no_histories() -> None:
    sessions = schedule(500)
    samples = {session: [0, 1, 3] if session[-1] in "02468" else [0, 1, 2, 3] for session in sessions}
    sizes = changed(PAPER, history_coverage=CrossedSizes(current_problems=64, histories=120))
    assert broken_rules(crossed_design(sessions, samples, sizes), sessions, samples, sizes) == []


def tried(sessions: dict[str, list[str]], samples: dict[str, list[int]], sizes: Replay) -> tuple[Design | None, str]:
    """The design, or why there is none."""
    try:
        return crossed_design(sessions, samples, sizes), ""
    except ValueError as error:
        return None, str(error)


def possible(sessions: dict[str, list[str]], samples: dict[str, list[int]], sizes: Replay) -> bool:
    """Whether any sessions meet the numbers: all are tried."""
    sources = {session: set(problems[: sizes.depth]) for session, problems in sessions.items()}
    with_paths = [session for session in sessions if samples[session]]

    def pool(chosen: tuple[str, ...]) -> set[str]:
        return set().union(*(sources[session] for session in chosen))

    def blocks(chosen: tuple[str, ...]) -> int:
        left, count = set(chosen), 0
        while left:
            reached, count = sources[left.pop()], count + 1
            while joining := {session for session in left if sources[session] & reached}:
                reached, left = reached | pool(tuple(joining)), left - joining
        return count

    def has_part(chosen: tuple[str, ...], group: ReplayGroup) -> bool:
        # Each session has all its four paths here, so paths suffice.
        return any(
            len(pool(part)) == group.problem_coverage.source_problems and blocks(part) == group.problem_coverage.blocks
            for part in combinations(chosen, group.problem_coverage.sessions)
        )

    first, second = sizes.groups
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
def small_sizes(draw: st.DrawFn) -> Replay:
    """Sizes for few sessions of which each gives all its four paths."""
    depth, sessions = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    groups = []
    for _ in range(2):
        part = draw(st.integers(1, sessions))
        sources = draw(st.integers(depth, depth * sessions))
        inner = draw(st.integers(depth, min(sources, depth * part)))
        groups.append((sessions, sources, part, inner, draw(st.integers(1, part))))
    current, parts = draw(st.integers(1, 3)), [part for _, _, part, _, _ in groups]
    narrow = draw(st.integers(max(parts), max(max(parts), 4 * min(parts))))
    wide = (draw(st.integers(1, current)), 4 * sessions)
    try:
        return sizes_of(depth, draw(st.integers(1, 3)), wide, (current, narrow), *groups)
    except ValueError:
        assume(False)
        raise


@settings(max_examples=80, deadline=None)
@given(count=st.integers(4, 11), sizes=small_sizes(), seed=st.text(max_size=3))
def test_a_small_design_is_found_where_there_is_one(count: int, sizes: Replay, seed: str) -> None:
    sessions, sizes = schedule(count, seed), changed(sizes, seed=seed)
    samples = four_paths(sessions)
    design, refused = tried(sessions, samples, sizes)
    if design is not None:
        assert broken_rules(design, sessions, samples, sizes) == []
    elif "too few" not in refused:
        assert "found" in refused
        assert "\n" not in refused
        assert not possible(sessions, samples, sizes)


def test_the_checks_see_a_broken_design() -> None:
    sessions, sizes = schedule(64), replay_of("tiny")
    samples = four_paths(sessions)
    design = crossed_design(sessions, samples, sizes)
    first, second = design.groups
    swapped = replace(first, problem_coverage=replace(first.problem_coverage, problems=first.problem_coverage.sources))
    for broken in (
        Design((second, second)),
        Design((swapped, second)),
        Design((replace(first, history_coverage=first.problem_coverage), second)),
    ):
        assert broken_rules(broken, sessions, samples, sizes) != []
    assert broken_rules(design, sessions, samples, changed(sizes, batch_problems=8)) != []
    assert broken_rules(design, sessions, samples, sizes) == []


@pytest.mark.parametrize(
    ("count", "paths", "message"),
    [
        (60, 4, "needs 65 sessions with a path of 3 complete turns; there are 60: 5 too few"),
        (100, 2, r"needs 256 histories \(paths of 3 complete turns\); there are 200: 56 too few"),
        (150, 4, "needs 164 source problems, none of which both groups have; there are 150: 14 too few"),
        (200, 4, "needs 256 current problems, none of which both groups have; there are 200: 56 too few"),
    ],
)
def test_data_that_cannot_fill_a_design_is_refused(count: int, paths: int, message: str) -> None:
    sessions = schedule(count)
    with pytest.raises(ValueError, match=message):
        crossed_design(sessions, {session: list(range(paths)) for session in sessions}, PAPER)


ALONE = (1, 3, 1, 3, 1)
"""A group of one session."""


def test_own_sources_are_no_current_problems() -> None:
    sessions = {f"s{n}": [f"p{n}-{turn}" for turn in range(3)] for n in range(2)}
    samples = {session: [0] for session in sessions}
    design = crossed_design(sessions, samples, sizes_of(3, 2, (3, 1), (3, 1), ALONE, ALONE))
    first, second = design.groups
    assert set(first.problem_coverage.problems) == set(second.history_coverage.sources)
    one = {"s0": sessions["s0"], "s1": sessions["s1"], "s2": ["p0-0", "p0-1", "p0-2"]}
    wide = sizes_of(3, 2, (1, 1), (3, 1), ALONE, ALONE)
    assert broken_rules(crossed_design(one, samples, wide), one, samples, wide) == []
    with pytest.raises(ValueError, match=r"needs 8 current problems, .*there are 6: 2 too few"):
        crossed_design(sessions, samples, sizes_of(3, 2, (1, 1), (4, 1), ALONE, ALONE))
    # Twelve problems: eight sources of the first group leave it four.
    sessions = {"s0": list("abc"), "s1": list("cde"), "s2": list("fgh"), "s3": list("ijkl")}
    with pytest.raises(
        ValueError, match=r"needs 13 problems, 8 as sources of group 1 and 5 others .*there are 12: 1 too few"
    ):
        crossed_design(sessions, four_paths(sessions), sizes_of(3, 2, (1, 3), (5, 1), (3, 8, 1, 3, 1), ALONE))


def test_no_sessions_with_the_numbers_are_refused_with_the_closest() -> None:
    # All orders of four problems: no two sessions are disjoint.
    sessions = {f"s{n}": list(order) for n, order in enumerate(permutations("abcd"))} | {"t": list("efgh")}
    samples = four_paths(sessions)
    sessions["no path"] = list("ijkl")
    message = (
        r"no groups of 2 and 1 sessions found among 25 that have 6 and 3 source problems, none in both, and 2 histories "
        r"each; the closest have \d and 3 source problems, \d in both, and 8 and 4 histories"
    )
    with pytest.raises(ValueError, match=message):
        crossed_design(sessions, samples, sizes_of(3, 2, (1, 2), (1, 2), (2, 6, 2, 6, 2), ALONE))


def test_a_part_that_is_not_there_is_refused_with_the_closest() -> None:
    # Any two of the first group's sessions share a problem, so no two have six.
    sessions = {"a": list("abc"), "b": list("ade"), "c": list("afg"), "z": list("xyz")}
    message = (
        "group 1: no 2 of a group's 3 sessions found that have 6 source problems, 2 blocks and 2 histories; "
        "the closest have 5, 1 and 2"
    )
    with pytest.raises(ValueError, match=message):
        crossed_design(sessions, four_paths(sessions), sizes_of(3, 2, (1, 3), (1, 2), (3, 7, 2, 6, 2), ALONE))
