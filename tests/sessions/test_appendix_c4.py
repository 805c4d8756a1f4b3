"""Appendix C.4 of the paper, the study with a shared T1 history: what its conditions share, and what each changes."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from pathlib import Path

import pytest

from stair.config.evaluation import Condition
from stair.engines.base import Engine
from stair.records.seeds import seed_of
from stair.records.shards import Shard
from stair.sessions.invariants import condition_checks, group_checks, kept, shared_t1_checks, turns_of
from stair.sessions.run import run_shard, sealed_rows
from stair.sessions.trajectory import Trajectory
from tests.conftest import LAYERS
from tests.sessions.protocol_cases import READS, Rows, Study, WatchedEngine, in_order
from tests.sessions.test_noise_floor import tokens_of

READING = ("stair", "random_reflector", "direct_read", "kv_permutation", "stair_prefix", "stair_null")
CONDITIONS = ("native", "bank_free", *READING)


@pytest.fixture
def shared(study: Study, tmp_path: Path) -> Study:
    """A study with a T1 of its own name; two turns."""
    return second(study, tmp_path / "shared", answer=True)


def second(study: Study, folder: Path, *, answer: bool = False) -> Study:
    """The study in another folder, with its T1 answers or new ones."""
    other = dataclasses.replace(
        study, folder=folder, sessions=4, samples=2, turns=2, name="shared-t1", first_rows=study.first_rows, failed=[]
    )
    if answer:
        other.sessions = 5
        other.answer_first()
        other.sessions = 4
    return other


def test_conditions_share_t1_prompt_seed_budget_and_bank_and_only_t2_differs(study: Study, shared: Study) -> None:
    engines = {condition: WatchedEngine(shared.model) for condition in CONDITIONS}
    rows = {condition: shared.go(condition, engine) for condition, engine in engines.items()}
    prompts, banks, budgets = defaultdict(set), defaultdict(set), set()
    for condition, of_condition in rows.items():
        assert len(of_condition) == 2 * 4 * 2
        for row in of_condition:
            assert row["seed"] == seed_of("shared-t1", "b", row["problem_id"], row["sample"])
            if row["turn"] == 1:
                first = shared.first_rows[row["problem_id"], row["sample"]]
                assert (row["response_ids"], row["controlled_tokens"]) == (first["response_ids"], 0)
                continue
            prompts[row["session_id"], row["sample"]].add((row["prompt_ids_sha256"], row["seed"]))
            if condition in READING:
                assert row["bank_source"] == "replayed"
                banks[row["session_id"], row["sample"]].add((row["bank_tokens"], row["bank_sha256"]))
            else:
                assert row["bank_tokens"] is row["bank_sha256"] is row["bank_source"] is None
        budgets |= {request.max_new_tokens for request in engines[condition].requests.values()}
    assert {len(found) for found in prompts.values()} == {len(found) for found in banks.values()} == {1}
    assert len(budgets) == 1
    assert tokens_of(rows["stair_null"]) == tokens_of(rows["native"])
    answers = {condition: str(tokens_of(of_condition)) for condition, of_condition in rows.items()}
    del answers["stair_null"]
    assert len(set(answers.values())) == len(answers), "two conditions answer alike"
    # Apart from the continuous evaluation's T1, which has another name.
    assert [row["response_ids"] for row in shared.first_rows.values()] != [
        row["response_ids"] for row in study.first_rows.values()
    ]
    for condition, of_condition in rows.items():
        turns = turns_of(kept(row, None) for row in of_condition)
        settings = (
            Condition(label=condition, turns=2, first_turn="t1", variant=READS[condition].variant)
            if (condition in READS)
            else Condition(label=condition, turns=2, first_turn="t1")
        )
        schedule: dict[str, list[str]] = {}
        for row in of_condition:
            schedule.setdefault(row["session_id"], [])
            if row["sample"] == 0:
                schedule[row["session_id"]].append(row["problem_id"])
        reads, acts = condition in READING, condition != "native"
        checks = condition_checks(turns, settings, schedule, 2, condition, reads=reads, acts=acts)
        assert [check for check in checks if not check.passed] == []
    every = turns_of(kept(row, None) for of_condition in rows.values() for row in of_condition)
    layers = dict.fromkeys(READING, LAYERS)
    assert all(check.passed for check in shared_t1_checks(every, layers, "here"))
    settings = {name: Condition(label=name, turns=2, first_turn=None) for name in rows}
    assert all(check.passed for check in group_checks(every, settings, "here"))


def test_bank_free_at_zero_equals_native_and_reads_no_bank(shared: Study, tmp_path: Path) -> None:
    native = shared.go("native", WatchedEngine(shared.model))
    engine = WatchedEngine(shared.model)
    zero = second(shared, tmp_path / "zero")
    zero.scale = 0.0
    rows = zero.go("bank_free", engine)
    assert tokens_of(rows) == tokens_of(native)
    assert engine.reconstructions == []
    assert all(request.read is not None and request.read.bank is None for request in engine.requests.values())
    assert all(request.capture is None for request in engine.requests.values())
    assert all((row["controlled_tokens"] > 0) == (row["turn"] == 2) for row in rows)
    scaled = second(shared, tmp_path / "scaled").go("bank_free", WatchedEngine(shared.model))
    assert tokens_of(scaled) != tokens_of(native)
    assert all(row["readout_norm"] > 0 for row in scaled if row["turn"] == 2)


def no_engine() -> Engine:
    raise AssertionError("an engine was loaded, though every response is in the other run's log")


@pytest.mark.parametrize("condition", ["stair_prefix", "bank_free"])
def test_another_run_gives_its_t2_responses_by_key(shared: Study, tmp_path: Path, condition: str) -> None:
    expected = shared.go(condition, WatchedEngine(shared.model))
    again = second(shared, tmp_path / "again")
    place = again.folder / condition

    def trajectories(_: bool) -> list[Trajectory]:
        return again.trajectories(condition)

    other = [shared.folder / condition / "log"]
    run_shard(trajectories, place, Shard(0, 1), no_engine, (again.folder / "progress", condition), other)
    assert in_order(list(sealed_rows(again.trajectories(condition), place, others=other))) == expected
    # Another intervention is another key.
    with pytest.raises(AssertionError, match="an engine was loaded"):
        run_shard(
            lambda _: list(again.trajectories("native")),
            again.folder / "native",
            Shard(0, 1),
            no_engine,
            (again.folder / "progress", "native"),
            other,
        )


def test_rows_of_another_prompt_or_bank_are_noticed(shared: Study) -> None:
    rows: dict[str, Rows] = {name: shared.go(name, WatchedEngine(shared.model)) for name in ("native", "stair")}
    rows["direct_read"] = [dict(row, condition="direct_read") for row in rows["stair"]]

    def failed() -> list[str]:
        every = turns_of(kept(row, None) for of_condition in rows.values() for row in of_condition)
        checks = shared_t1_checks(every, dict.fromkeys(("stair", "direct_read"), LAYERS), "here")
        return [check.name for check in checks if not check.passed]

    assert failed() == []
    (row, *_) = [row for row in rows["direct_read"] if row["turn"] == 2]
    row["bank_sha256"] = "another"
    assert failed() == ["banks are equal"]
    row["prompt_ids_sha256"] = "another"
    assert failed() == ["T2 prompts are equal", "banks are equal"]
