"""Crossed designs: the paper's over the evaluation's own schedules, small ones, and data that cannot fill one."""

from __future__ import annotations

import random
import re
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stair.config.replay import BlockSizes, CrossedSizes, Replay, ReplayGroup, SourceSizes
from stair.stages.replay.design import crossed
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
    depth: int, batch: int, wide: tuple[int, int], narrow: tuple[int, int], *groups: tuple[int, int, int]
) -> Replay:
    """Current problems and histories of both coverages; of each group the sessions of both, and the blocks."""
    history_coverage, problem_coverage = (
        CrossedSizes(current_problems=problems, histories=histories) for problems, histories in (wide, narrow)
    )
    first, second = (
        ReplayGroup(
            history_coverage=SourceSizes(sessions=sessions),
            problem_coverage=BlockSizes(sessions=part, blocks=blocks),
        )
        for sessions, part, blocks in groups
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


@pytest.mark.parametrize("seed", range(8))
def test_the_papers_design_over_the_evaluations_schedules(seed: int) -> None:
    checked(schedule(500, f"schedule {seed}"), PAPER)


def test_paths_are_spread_evenly() -> None:
    design = checked(schedule(500), PAPER)
    # 33 sessions have 132 paths: four sessions give three, and all others four.
    paths = [history.session for history in design.groups[0].history_coverage.histories]
    assert sorted(map(paths.count, set(paths))) == [3] * 4 + [4] * 29


@pytest.mark.parametrize("seed", range(3))
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


def test_paths_that_are_missing_are_no_histories() -> None:
    sessions = schedule(500)
    samples = {session: [0, 1, 3] if session[-1] in "02468" else [0, 1, 2, 3] for session in sessions}
    sizes = changed(PAPER, history_coverage=CrossedSizes(current_problems=64, histories=104))
    assert broken_rules(crossed_design(sessions, samples, sizes), sessions, samples, sizes) == []


def tried(sessions: dict[str, list[str]], samples: dict[str, list[int]], sizes: Replay) -> tuple[Design | None, str]:
    """The design, or why there is none."""
    try:
        return crossed_design(sessions, samples, sizes), ""
    except ValueError as error:
        return None, str(error)


@st.composite
def small_sizes(draw: st.DrawFn) -> Replay:
    """Sizes for few sessions of which each gives all its four paths."""
    depth, sessions = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    groups = []
    for _ in range(2):
        part = draw(st.integers(1, sessions))
        groups.append((sessions, part, draw(st.integers(1, part))))
    current, parts = draw(st.integers(1, 3)), [part for _, part, _ in groups]
    narrow = draw(st.integers(max(parts), max(max(parts), 4 * min(parts))))
    wide = (draw(st.integers(1, current)), 4 * sessions)
    return sizes_of(depth, draw(st.integers(1, 3)), wide, (current, narrow), *groups)


@settings(max_examples=40, deadline=None)
@given(count=st.integers(4, 11), sizes=small_sizes(), seed=st.text(max_size=3))
def test_a_small_design_keeps_every_rule_or_is_refused_in_one_line(count: int, sizes: Replay, seed: str) -> None:
    sessions, sizes = schedule(count, seed), changed(sizes, seed=seed)
    samples = four_paths(sessions)
    design, refused = tried(sessions, samples, sizes)
    if design is not None:
        assert broken_rules(design, sessions, samples, sizes) == []
    else:
        assert re.fullmatch(r"[^\n]*(needs \d+ current problems|are needed)[^\n]*", refused)


@pytest.mark.parametrize(
    ("count", "paths", "message"),
    [
        (100, 4, "needs 128 current problems in each half of the problems; there are 50"),
        (
            260,
            4,
            r"none of 20 draws .*, group \d has \d+ (sessions with all sources in its half|source blocks.*), and \d+ are",
        ),
        (
            500,
            2,
            r"none of 20 draws .*, group \d has \d+ (sessions with all sources in its half|histories), and \d+ are needed",
        ),
    ],
)
def test_data_that_cannot_fill_a_design_is_refused(
    count: int, paths: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crossed, "_DRAWS", 20)
    sessions = schedule(count)
    with pytest.raises(ValueError, match=message):
        crossed_design(sessions, {session: list(range(paths)) for session in sessions}, PAPER)


def test_blocks_that_no_sessions_have_are_refused() -> None:
    # All orders of four problems of a half are one block.
    sessions = {f"s{n}": list(order) for n, order in enumerate(permutations("abcd"))}
    sessions |= {f"t{n}": list(order) for n, order in enumerate(permutations("efgh"))}
    with pytest.raises(ValueError, match="none of 2000 draws has the design's numbers"):
        crossed_design(sessions, four_paths(sessions), sizes_of(3, 2, (1, 8), (1, 2), (2, 2, 2), (2, 2, 1)))
