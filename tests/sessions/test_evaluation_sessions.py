"""The evaluation schedule (appendix C.2)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stair.stages.sessions.columns import arrange
from stair.stages.sessions.evaluation_sessions import evaluation_sessions


def columns_of(problems: list[str], seed: str = "seed") -> dict[int, dict[str, str]]:
    """The schedule as (turn, session) to problem."""
    rows = evaluation_sessions(problems, "bench", seed)
    columns: dict[int, dict[str, str]] = {turn: {} for turn in (1, 2, 3, 4)}
    for row in rows:
        assert row["session_id"] not in columns[row["turn"]]
        columns[row["turn"]][row["session_id"]] = row["problem_id"]
    return columns


def broken_rules(columns: dict[int, dict[str, str]], problems: list[str]) -> list[str]:
    """What a schedule of these problems does wrong, in words."""
    found = [f"T{n} is no permutation" for n, column in columns.items() if sorted(column.values()) != sorted(problems)]
    for session, opening in columns[1].items():
        if session != f"s-{opening}":
            found.append(f"{session} opens with {opening}")
        if len({column[session] for column in columns.values()}) != 4:
            found.append(f"{session} repeats a problem")
    return found


@settings(max_examples=80, deadline=None)
@given(problems=st.sets(st.text(min_size=1, max_size=5), min_size=4, max_size=40), seed=st.text(max_size=4))
def test_every_schedule_keeps_the_rules(problems: set[str], seed: str) -> None:
    assert not broken_rules(columns_of(sorted(problems), seed), sorted(problems))


@pytest.mark.parametrize("count", [4, 5])
def test_the_smallest_sizes(count: int) -> None:
    problems = [f"p{number:04d}" for number in range(count)]
    for seed in map(str, range(40)):
        assert not broken_rules(columns_of(problems, seed), problems)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_fewer_than_four_problems_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"benchmark 'bench' has {count} problems; a session needs 4 distinct ones"):
        evaluation_sessions([f"p{number}" for number in range(count)], "bench", "seed")


def test_the_schedule_depends_on_names_and_not_on_the_order_of_problems() -> None:
    problems = [f"p{number:03d}" for number in range(60)]
    columns = columns_of(problems)
    assert columns_of(problems[::-1]) == columns
    assert columns_of(problems, "another") != columns
    assert evaluation_sessions(problems, "bench", "seed") != evaluation_sessions(problems, "other", "seed")
    moved = sum(columns[2][session] != columns[3][session] for session in columns[1])
    assert moved == 60


def test_the_same_problem_has_other_histories_at_other_turns() -> None:
    columns = columns_of([f"p{number:03d}" for number in range(200)])
    session_at = {turn: {problem: session for session, problem in column.items()} for turn, column in columns.items()}
    same = sum(session_at[2][problem] == session_at[3][problem] for problem in session_at[2])
    assert same == 0


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"turn columns differ in length: \[2, 1\]"):
        arrange([["a", "b"], ["c"]], lambda item: item, lambda item: item, "seed")
