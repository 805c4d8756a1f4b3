"""Every invariant holds on sound rows, and each has a break that it notices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from stair.config.evaluation import Condition
from stair.records.rows import Rollout, ScheduledTurn, SourceRecord
from stair.sessions.check import Check
from stair.sessions.invariants import MIXED, ONE_ENGINE, condition_checks, group_checks, kept, shares, turns_of
from stair.sessions.renderer import Renderer
from stair.stages.checks.data_checks import pool_checks, rollout_checks, schedule_checks, training_checks
from stair.stages.sessions.evaluation_sessions import evaluation_sessions
from stair.stages.sessions.training_sessions import training_sessions

PROBLEMS = [f"p{number}" for number in range(6)]
SAMPLES = 2
CONDITIONS = {
    "vanilla": Condition(label="Vanilla", turns=1),
    "native": Condition(label="Native", first_turn="vanilla"),
    "stair": Condition(label="STAIR", first_turn="vanilla", controller="stair"),
}
SCHEDULE = [ScheduledTurn(**row) for row in evaluation_sessions(PROBLEMS, "bench", "seed")]
SESSIONS: dict[str, list[str]] = {}
for one in sorted(SCHEDULE):
    SESSIONS.setdefault(one.session_id, []).append(one.problem_id)

Row = dict[str, Any]


def rows_of(condition: str) -> list[Row]:
    """Sound rows: as many captured tokens as the turn's number."""
    settings, rows = CONDITIONS[condition], []
    for session, problems in SESSIONS.items():
        for sample in range(SAMPLES):
            for turn in range(1, settings.turns + 1):
                problem = problems[turn - 1]
                bank = settings.controller is not None
                reads = bank and turn > 1
                # T1 is Vanilla's, so its ids depend on problem and sample alone.
                ids = [len(problem), sample, 1] if turn == 1 else [turn, sample, len(condition), 1]
                rows.append(
                    dict(
                        condition=condition,
                        session_id=session,
                        turn=turn,
                        sample=sample,
                        problem_id=problem,
                        seed=hash((problem, sample)),
                        response_ids=ids,
                        response="It is 4. </think> \\boxed{4}",
                        finish_reason="stop",
                        response_tokens=len(ids),
                        history_retokenised=False,
                        captured_tokens=turn if bank and turn < 4 else None,
                        bank_tokens=turn * (turn - 1) // 2 if bank else None,
                        controlled_tokens=9 if reads else 0,
                        readout_norm=0.5 if reads else 0.0,
                        engine="transformers",
                        engine_version="1",
                        attention="sdpa",
                        dtype="float32",
                        device="cpu",
                        prompt_ids_sha256="prompt",
                        bank_sha256="bank" if reads else None,
                    )
                )
    return rows


def checked(rows: list[Row], renderer: Renderer | None = None) -> pd.DataFrame:
    return turns_of(kept(row, renderer) for row in rows)


def of_condition(rows: list[Row], condition: str, cut: dict[tuple[str, int], int] | None = None) -> list[Check]:
    settings = CONDITIONS[condition]
    reads = settings.controller is not None
    return condition_checks(checked(rows), settings, SESSIONS, SAMPLES, condition, reads=reads, cut=cut)


def of_group(rows: dict[str, list[Row]], *, allow_mixed: bool = False) -> list[Check]:
    turns = checked([row for of_condition in rows.values() for row in of_condition])
    return group_checks(turns, CONDITIONS, "group", allow_mixed=allow_mixed)


def failed(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if not check.passed}


@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_sound_rows_hold_every_check(condition: str) -> None:
    assert failed(of_condition(rows_of(condition), condition)) == set()
    assert failed(of_group({name: rows_of(name) for name in CONDITIONS})) == set()


def later(rows: list[Row]) -> Row:
    return next(row for row in rows if row["turn"] == 3)


BREAKS: list[tuple[str, Callable[[list[Row]], Any], str]] = [
    ("stair", lambda rows: rows.pop(), "every turn of every trajectory once"),
    ("stair", lambda rows: rows.append(copy.copy(rows[0])), "every turn of every trajectory once"),
    ("native", lambda rows: rows[0].update(session_id="s-unknown"), "every turn of every trajectory once"),
    ("native", lambda rows: later(rows).update(problem_id="p-unknown"), "problems follow the schedule"),
    ("native", lambda rows: rows[0].update(response_tokens=99), "token counts agree with the ids"),
    ("stair", lambda rows: later(rows).update(bank_tokens=1), "bank tokens equal the sum of captured spans"),
    ("stair", lambda rows: rows[0].update(captured_tokens=7), "bank tokens equal the sum of captured spans"),
    ("native", lambda rows: later(rows).update(bank_tokens=0), "bank tokens equal the sum of captured spans"),
    ("stair", lambda rows: later(rows).update(controlled_tokens=0), "the bank is read after T1 and nowhere else"),
    ("stair", lambda rows: later(rows).update(readout_norm=0.0), "the bank is read after T1 and nowhere else"),
    ("stair", lambda rows: later(rows).update(readout_norm=float("nan")), "the bank is read after T1 and nowhere else"),
    ("native", lambda rows: later(rows).update(readout_norm=0.1), "the bank is read after T1 and nowhere else"),
    ("stair", lambda rows: rows[0].update(controlled_tokens=3), "the bank is read after T1 and nowhere else"),
]


@pytest.mark.parametrize(("condition", "break_", "name"), BREAKS)
def test_a_break_in_a_condition_is_noticed(condition: str, break_: Callable[[list[Row]], Any], name: str) -> None:
    rows = rows_of(condition)
    break_(rows)
    checks = of_condition(rows, condition)
    assert name in failed(checks)
    assert all(" wrong, first: " in check.detail for check in checks if not check.passed)


def test_a_failed_check_names_the_first_row_that_offends() -> None:
    rows = rows_of("stair")
    for row in rows[-2:]:
        row["response_tokens"] = 99
    (check,) = [check for check in of_condition(rows, "stair") if not check.passed]
    place = ", ".join(f"{name} {rows[-2][name]}" for name in ("condition", "session_id", "turn", "sample"))
    assert check.detail == f"2 wrong, first: {place}, response_tokens 99, ids {len(rows[-2]['response_ids'])}"


def test_only_the_rest_of_a_cut_trajectory_may_be_missing() -> None:
    """A trajectory that is cut at T3 lacks T3 and T4, and nothing stands behind a missing turn."""
    rows = rows_of("stair")
    place = (rows[0]["session_id"], rows[0]["sample"])

    def without(*turns: int) -> list[Row]:
        return [row for row in rows if (row["session_id"], row["sample"]) != place or row["turn"] not in turns]

    (whole, *_) = of_condition(without(3, 4), "stair", {place: 3})
    assert whole.passed and whole.detail == "2 missing, as the manifest says"
    assert failed(of_condition(without(3, 4), "stair", {place: 3})) == set()
    assert failed(of_condition(rows, "stair", {place: 3})) == set(), "a response that was generated after all"
    assert failed(of_condition(without(1, 2, 3, 4), "stair", {place: 1})) == set()
    grid = {"every turn of every trajectory once"}
    for turns, cut in (((2, 3, 4), 3), ((3, 4), 4), ((3, 4), None)):
        assert grid <= failed(of_condition(without(*turns), "stair", None if cut is None else {place: cut}))
    assert "turn 4, times 1" in of_condition(without(3), "stair", {place: 3})[0].detail, "T4 stands behind a missing T3"
    twice = [*without(3, 4), copy.copy(rows[-1])]
    assert grid <= failed(of_condition(twice, "stair", {place: 3}))


@pytest.mark.parametrize(
    ("thinking", "ids", "captured"),
    [
        (False, [5, 6, 1], 2),  # the end marker is not part of the answer
        (False, [5, 6, 7], 2),  # cut at the limit: the token drawn last was not processed
        (False, [1], 0),
        (False, [], 0),  # no room in the context
        (True, [5, 9, 6, 9, 7, 1], 3),  # the last </think> counts
        (True, [5, 6, 1], 2),  # no </think>: what was processed
        (True, [5, 6, 9], 2),  # cut right behind </think>
    ],
)
def test_captured_spans_follow_from_the_ids(thinking: bool, ids: list[int], captured: int) -> None:
    renderer = Renderer.__new__(Renderer)  # the ids of the markers are all that matters here
    renderer.stop_ids, renderer.end_of_thinking = (1,), 9 if thinking else None
    row = {**rows_of("stair")[0], "response_ids": ids, "captured_tokens": captured}

    def fault(*, reads: bool = True, **changed: Any) -> str:
        turns = checked([{**row, **changed}], renderer)
        check = condition_checks(turns, CONDITIONS["stair"], SESSIONS, SAMPLES, "stair", reads=reads)[-1]
        assert check.name == "captured spans end where the answers say"
        return "" if check.passed else check.detail

    assert not fault()
    for wrong in (captured + 1, captured - 1, None):
        assert f"states {float(captured)}" in fault(captured_tokens=wrong)
    assert fault(turn=4) and not fault(turn=4, captured_tokens=None), "the last turn gives nothing"
    assert fault(reads=False), "nor does a turn of a condition without a bank"


def test_an_empty_bank_has_nothing_to_read() -> None:
    rows = rows_of("stair")
    for row in rows:
        row.update(captured_tokens=0 if row["turn"] < 4 else None, bank_tokens=0, readout_norm=0.0)
    assert failed(of_condition(rows, "stair")) == set()


def test_a_turn_without_room_in_the_context_reads_nothing() -> None:
    """Such a response counts as incorrect, and the session goes on (appendix C.3)."""
    rows = rows_of("stair")
    exhausted = next(row for row in rows if row["turn"] == 4)
    nothing = dict(finish_reason="context", response_ids=[], response_tokens=0, response="")
    exhausted.update(**nothing, controlled_tokens=0, readout_norm=0.0)
    assert failed(of_condition(rows, "stair")) == set()
    exhausted.update(controlled_tokens=9, readout_norm=0.5)
    assert failed(of_condition(rows, "stair")) == {"the bank is read after T1 and nowhere else"}


@pytest.mark.parametrize(
    ("break_", "name"),
    [
        (lambda row: row.update(response_ids=[5, 5]), "T1 responses are shared"),
        (lambda row: row.update(seed=1), "one seed for a problem and sample"),
        (lambda row: row.update(dtype="bfloat16"), "one engine for the comparison"),
        (lambda row: row.update(device="another"), "one engine for the comparison"),
    ],
)
def test_a_break_between_conditions_is_noticed(break_: Callable[[Row], Any], name: str) -> None:
    rows = {condition: rows_of(condition) for condition in CONDITIONS}
    break_(next(row for row in rows["stair"] if row["turn"] == 1))
    assert failed(of_group(rows)) == {name}


def test_the_two_reads_of_one_entry_do_not_differ() -> None:
    rows = [row | {"readout_norm": 0.0} if row["bank_tokens"] == 1 else row for row in rows_of("stair")]
    assert rows != rows_of("stair")
    assert failed(of_condition(rows, "stair")) == set()


def test_times_zero_leaves_no_readout() -> None:
    settings = CONDITIONS["stair"].model_copy(update={"variant": "zero"})

    def found(rows: list[Row]) -> set[str]:
        return failed(condition_checks(checked(rows), settings, SESSIONS, SAMPLES, "stair_null", reads=True))

    assert found([row | {"readout_norm": 0.0} for row in rows_of("stair")]) == set()
    assert found(rows_of("stair")) == {"the bank is read after T1 and nowhere else"}


def test_unequal_engines_can_be_allowed_and_are_told() -> None:
    rows = {condition: rows_of(condition) for condition in CONDITIONS}
    for row in rows["stair"]:
        row["device"] = "another"
    (check,) = [one for one in of_group(rows, allow_mixed=True) if one.name == ONE_ENGINE]
    assert check.passed
    assert check.detail == MIXED + "transformers 1 sdpa float32 cpu; transformers 1 sdpa float32 another"
    sound = {condition: rows_of(condition) for condition in CONDITIONS}
    assert not any(one.detail for one in of_group(sound, allow_mixed=True))


def test_unusual_paths_are_counted() -> None:
    rows = rows_of("native")
    later(rows)["history_retokenised"] = True
    rows[0].update(response="It is", finish_reason="length")
    told = {check.name: check.detail for check in shares(checked(rows), True, "native")}
    assert told == {
        "share of re-tokenised histories": "1 of 36 (2.8%)",
        "share of responses at the output limit": "1 of 48 (2.1%)",
        "share of responses with no room left": "0 of 48 (0.0%)",
        "share of responses without </think>": "1 of 48 (2.1%)",
    }
    names = {check.name for check in shares(checked(rows_of("vanilla")), False, "vanilla")}
    assert names == {"share of responses at the output limit", "share of responses with no room left"}


POOL = [
    SourceRecord("r1", "a", "", "", split="train"),
    SourceRecord("r2", "a", "", "", split="train"),
    SourceRecord("r3", "b", "", "", split="validation"),
]


@pytest.mark.parametrize(
    ("change", "excluded", "broken"),
    [
        ({}, {"math500": {"c"}}, set()),
        ({}, {"math500": {"c"}, "amc23": {"b"}}, {"no problem of an excluded benchmark"}),
        ({"split": "validation"}, {}, {"validation problems are held out"}),
    ],
)
def test_a_training_pool_without_excluded_or_shared_problems(
    change: Row, excluded: dict[str, set[str]], broken: set[str]
) -> None:
    rows = [*POOL[:1], POOL[1]._replace(**change), *POOL[2:]]
    assert failed(pool_checks(pd.DataFrame(rows), excluded, "pool")) == broken


def test_a_broken_schedule_is_noticed() -> None:
    assert failed(schedule_checks(pd.DataFrame(SCHEDULE), PROBLEMS, "bench")) == set()
    broken = list(SCHEDULE)
    broken[1] = broken[1]._replace(problem_id=broken[0].problem_id)
    assert failed(schedule_checks(pd.DataFrame(broken), PROBLEMS, "bench")) == {
        "turn columns are permutations",
        "problems of a session are distinct",
    }


def training_rows() -> tuple[list[Row], list[str]]:
    """Sessions whose weights are no binary fractions, so that sums of them are rounded."""
    records = {
        f"r{number}": [Rollout(f"r{number}", f"p{number % 5}", sample, 1) for sample in range(4)]
        for number in range(12)
    }
    return training_sessions(records, "seed"), [*records]


def move_weight(rows: list[Row]) -> None:
    """From one response of a problem to another of the same: the problem's sum stays."""
    one, other = [row for row in rows if row["turn"] > 1 and row["problem_id"] == "p0"][:2]
    one["weight"], other["weight"] = one["weight"] - 0.1, other["weight"] + 0.1


def rename(rows: list[Row]) -> None:
    for row in rows:
        row["problem_id"] = f"other-{row['problem_id']}"


@pytest.mark.parametrize(
    ("break_", "name"),
    [
        (lambda rows: rows[0].update(sample=9), "every response stands once"),
        (lambda rows: rows[0].update(turn=rows[1]["turn"]), "a record's responses are in different columns"),
        (lambda rows: rows[1].update(problem_id=rows[0]["problem_id"]), "problems of a session are distinct"),
        (lambda rows: rows[1].update(weight=9.0), "problems have equal total weight"),
        (lambda rows: rows[0].update(weight=1.0), "problems have equal total weight"),
        (lambda rows: move_weight(rows), "problems have equal total weight"),
        (lambda rows: rename(rows), "responses are of their record's problem"),
    ],
)
def test_a_break_in_training_sessions_is_noticed(break_: Callable[[list[Row]], Any], name: str) -> None:
    rows, records = training_rows()
    pool = [SourceRecord(f"r{number}", f"p{number % 5}", "", "", split="train") for number in range(12)]

    def failures() -> set[str]:
        return failed(training_checks(pd.DataFrame(rows), records, pd.DataFrame(pool), "train"))

    assert failures() == set()
    break_(rows)
    assert name in failures()


@pytest.mark.parametrize("change", [{"record_id": "r9"}, {"problem_id": "b"}])
def test_rollouts_that_are_not_of_the_pool_are_noticed(change: Row) -> None:
    rows = [Rollout(record.record_id, record.problem_id, 0, 1) for record in POOL]
    assert failed(rollout_checks(pd.DataFrame(rows), pd.DataFrame(POOL), "rollouts")) == set()
    rows[0] = rows[0]._replace(**change)
    assert failed(rollout_checks(pd.DataFrame(rows), pd.DataFrame(POOL), "rollouts")) == {
        "responses are to records of the pool"
    }
