"""Training sessions and their weights (appendices B.4 and B.5)."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.records.rows import Rollout
from stair.records.schemas import ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.tables import read_table, write_table
from stair.stages.sessions import stage
from stair.stages.sessions.training_sessions import complete_records, problem_weights, training_sessions
from stair.stages.training.recorded_sessions import in_updates

ROOT = Path(__file__).parents[2]
Rows = list[dict[str, Any]]


def rollouts(records_of_problems: list[int]) -> list[Rollout]:
    """Four responses for every record; the n-th number is the number of records of the n-th problem."""
    return [
        Rollout(f"r{problem}-{record}", f"p{problem}", sample, response_tokens=2)
        for problem, count in enumerate(records_of_problems)
        for record in range(count)
        for sample in range(4)
    ]


def sessions_of(rows: list[Rollout], *seed: str) -> Rows:
    kept, dropped = complete_records(rows)
    assert dropped == []
    return training_sessions(kept, *(seed or ("seed",)))


def check_sessions(sessions: Rows, rows: list[Rollout]) -> None:
    """What holds of training sessions whatever the responses are."""
    used = Counter((row["record_id"], row["sample"]) for row in sessions)
    assert used == Counter((row.record_id, row.sample) for row in rows), "each response is in one session"
    problem_of = {row.record_id: row.problem_id for row in rows}
    by_session: dict[str, Rows] = defaultdict(list)
    turns: dict[str, set[int]] = defaultdict(set)
    for row in sessions:
        by_session[row["session_id"]].append(row)
        turns[row["record_id"]].add(row["turn"])
        assert row["problem_id"] == problem_of[row["record_id"]]
    assert all(found == {1, 2, 3, 4} for found in turns.values()), "a record has one response in each turn column"
    assert len(by_session) == len(rows) // 4
    for members in by_session.values():
        assert [row["turn"] for row in members] == [1, 2, 3, 4]
        assert len({row["problem_id"] for row in members}) == 4, "a session repeats a problem"


def check_weights(sessions: Rows) -> None:
    supervised = [row for row in sessions if row["turn"] > 1]
    problems = {row["problem_id"] for row in sessions}
    assert all(row["weight"] == 0 for row in sessions if row["turn"] == 1)
    total: dict[str, float] = defaultdict(float)
    for row in supervised:
        total[row["problem_id"]] += row["weight"]
    assert total.keys() == problems
    for weight in total.values():
        assert weight == pytest.approx(len(supervised) / len(problems), rel=1e-12), "S/Q for every problem"


counts = st.lists(st.integers(1, 3), min_size=16, max_size=40)


@settings(max_examples=60, deadline=None)
@given(records=counts, seed=st.text(max_size=3))
def test_every_arrangement_keeps_the_rules(records: list[int], seed: str) -> None:
    rows = rollouts(records)
    sessions = sessions_of(rows, seed)
    check_sessions(sessions, rows)
    check_weights(sessions)


@pytest.fixture(scope="module")
def many() -> list[Rollout]:
    """2,000 records of about 1,500 problems, some with many records."""
    return rollouts([1] * 1200 + [2] * 250 + [5] * 40 + [20] * 5)


def test_at_scale(many: list[Rollout]) -> None:
    assert len(many) == 4 * 2000
    sessions = sessions_of(many)
    check_sessions(sessions, many)
    check_weights(sessions)
    # The columns are shuffled apart from one another: a record's neighbours in one column are not those in another.
    names: dict[tuple[str, int], str] = {(row["record_id"], row["turn"]): row["session_id"] for row in sessions}
    together = sum(names[f"r{p}-0", 1] == names[f"r{p}-0", 2] for p in range(1200))
    assert together == 0
    assert Counter(row["sample"] for row in sessions if row["turn"] == 1).most_common(1)[0][1] < 600


def test_the_order_of_responses_does_not_matter(many: list[Rollout]) -> None:
    shuffled = list(many)
    random.Random(0).shuffle(shuffled)
    sessions = sessions_of(many)
    assert sessions_of(shuffled) == sessions
    assert sessions_of(many, "another") != sessions
    assert [row["session_id"] for row in sessions] == sorted(row["session_id"] for row in sessions)


def test_four_problems_are_enough_and_three_are_not() -> None:
    rows = rollouts([1] * 4)
    check_sessions(sessions_of(rows), rows)
    with pytest.raises(ValueError, match="3 problems are too few for sessions of 4 distinct ones"):
        sessions_of(rollouts([1] * 3))


def test_one_problem_cannot_fill_more_than_every_session_once() -> None:
    # 4 records of one problem stand in 16 places, one a session at most: 15 sessions cannot hold them.
    with pytest.raises(ValueError, match="problem p0 has 16 items for 15 sessions of 4 distinct problems"):
        sessions_of(rollouts([4, *[1] * 11]))
    rows = rollouts([4, *[1] * 20])
    check_sessions(sessions_of(rows), rows)


@pytest.mark.parametrize(
    "counts",
    [
        [25] * 4,
        [100] * 4,
        [4, *[1] * 12],
        [249, 249, *[1] * 502],
        [240] * 3 + [1] * 280,
        [3, 3, 3, 1, 1, 1],
        [1] * 4,
        [1] * 5,
    ],
    ids=lambda counts: f"{len(counts)} problems, {sum(counts)} records",
)
def test_problems_up_to_their_share_always_find_their_places(counts: list[int]) -> None:
    rows = rollouts(counts)
    sessions = sessions_of(rows)
    check_sessions(sessions, rows)
    check_weights(sessions)
    shuffled = list(rows)
    random.Random(1).shuffle(shuffled)
    assert sessions_of(shuffled) == sessions
    if len(rows) > 100:
        assert sessions_of(rows, "another") != sessions


def test_places_that_swaps_do_not_find_are_by_chance_too() -> None:
    """Problems that fill nearly all their share: who is whose neighbour must not follow from the order of names."""
    by_session: dict[str, Rows] = defaultdict(list)
    for row in sessions_of(rollouts([100] * 4)):
        by_session[row["session_id"]].append(row)
    records = [{row["record_id"].split("-")[1] for row in session} for session in by_session.values()]
    assert sum(len(one) == 4 for one in records) > 300, "about 94 of 100 by chance"
    problems = defaultdict(set)
    for row in sessions_of(rollouts([240] * 3 + [1] * 280)):
        problems[row["session_id"]].add(row["problem_id"])
    assert len({frozenset(one) for one in problems.values()}) > 250, "the single problems meet all sorts of others"


def test_records_without_four_whole_responses_are_dropped_and_named() -> None:
    rows = rollouts([1] * 9)
    for empty in (0, 5):
        rows[empty] = rows[empty]._replace(response_tokens=0)
    del rows[8]
    rows[12] = rows[12]._replace(sample=4)
    rows.append(rows[-1]._replace(sample=4))
    kept, dropped = complete_records(rows, [f"r{problem}-0" for problem in range(10)])
    assert [(one.record_id, one.reason) for one in dropped] == [
        ("r0-0", "1 of 4 responses are empty"),
        ("r1-0", "1 of 4 responses are empty"),
        ("r2-0", "3 responses, not 4"),
        ("r3-0", "samples 0, 2, 3, 4, not 0 to 3"),
        ("r8-0", "5 responses, not 4"),
        ("r9-0", "0 responses, not 4"),
    ]
    assert list(kept) == [f"r{problem}-0" for problem in range(4, 8)]
    assert all([row.sample for row in each] == [0, 1, 2, 3] for each in kept.values())


def test_a_response_of_one_token_is_not_empty() -> None:
    """Incomplete responses contribute the tokens that they have (appendix B.4)."""
    rows = rollouts([1] * 4)
    rows[0] = rows[0]._replace(response_tokens=1)
    assert complete_records(rows)[1] == []


def test_what_is_dropped_is_sealed_beside_the_sessions(tmp_path: Path) -> None:
    """The stage itself, on a pool and rollouts on disk: one record with an empty response, one without responses."""
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path)})
    paths, model = RunPaths.of(config), "qwen3-4b-instruct"
    rows = on_disk(paths, model, ["train"] * 8 + ["validation"] * 5, without="r12-0")
    assert stage.training(config, paths, model) == {
        "sessions": {"train": 7, "validation": 4},
        "dropped_records": {"train": ["r0-0"], "validation": ["r12-0"]},
    }
    assert paths.dropped_records(model).read_text() == (
        "record_id,problem_id,split,responses,empty,reason\n"
        "r0-0,p0,train,4,1,1 of 4 responses are empty\n"
        'r12-0,p12,validation,0,0,"0 responses, not 4"\n'
    )
    for path, problems in (
        (paths.training_sessions(model), range(1, 8)),
        (paths.validation_sessions(model), range(8, 12)),
    ):
        sessions = read_table(path, TRAINING_SESSIONS)
        assert {row["problem_id"] for row in sessions} == {f"p{n}" for n in problems}
        check_sessions(sessions, [row for row in rows if row.problem_id in {f"p{n}" for n in problems}])
        check_weights(sessions)


def test_sessions_that_cannot_be_built_say_what_was_dropped_before(tmp_path: Path) -> None:
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path)})
    paths, model = RunPaths.of(config), "qwen3-4b-instruct"
    on_disk(paths, model, ["train"] * 8 + ["validation"] * 4, without="r11-0")
    told = (
        r"qwen3-4b-instruct, validation sessions of 3 records: 3 problems are too few for sessions of 4 distinct ones; "
        r"1 records were dropped before: r11-0 \(0 responses, not 4\)"
    )
    with pytest.raises(ValueError, match=told):
        stage.training(config, paths, model)


def on_disk(paths: RunPaths, model: str, splits: list[str], without: str) -> list[Rollout]:
    """A pool of a record for each split, and rollouts: the first record has an empty response, one has none at all."""
    pool = [
        dict(record_id=f"r{n}-0", problem_id=f"p{n}", problem=f"{n}?", reference="1", split=split)
        for n, split in enumerate(splits)
    ]
    write_table(paths.training_pool(model), TRAINING_POOL, pool)
    text = {
        "finish_reason": "stop",
        "response": "",
        "prompt_ids_sha256": "",
        "engine": "",
        "engine_version": "",
        "attention": "",
        "dtype": "",
    }
    responses = [response for response in rollouts([1] * len(splits)) if response.record_id != without]
    responses[0] = responses[0]._replace(response_tokens=0)
    others = {"model": model, "device": "", "seed": 0, "prompt_tokens": 3}
    rows = [
        {**response._asdict(), **text, **others, "response_ids": [5, 2][: response.response_tokens]}
        for response in responses
    ]
    write_table(paths.rollouts(model), ROLLOUTS, rows)
    return responses


def test_the_papers_records_give_its_updates() -> None:
    """14,806 records: 1,851 updates of eight sessions, the last of six with 18 responses (appendix C.1)."""
    config = resolve(ROOT, {"run": "paper"})
    sessions: dict[str, Rows] = defaultdict(list)
    for row in sessions_of(rollouts([1] * 14_806)):
        sessions[row["session_id"]].append(row)
    settings = config.training
    updates = in_updates(sessions, settings.sessions_per_update, settings.epochs, config.controllers["stair"].seed)
    assert len(updates) == 1851
    assert {len(update) for update in updates[:-1]} == {8}
    assert {sum(row["turn"] > 1 for session in update for row in session) for update in updates[:-1]} == {24}
    assert len(updates[-1]) == 6
    assert sum(row["turn"] > 1 for session in updates[-1] for row in session) == 18


def test_the_weight_is_the_papers() -> None:
    # w_r = (S/Q) / (3 C_q / 4): three problems with 4, 4 and 8 candidates; S = 12 supervised responses.
    weights = problem_weights(["a"] * 4 + ["b"] * 4 + ["c"] * 8)
    assert weights == {"a": 12 / 3 / 3, "b": 12 / 3 / 3, "c": 12 / 3 / 6}
