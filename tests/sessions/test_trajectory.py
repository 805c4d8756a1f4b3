"""Sessions under every condition: shared first turns, matched seeds, and what the bank holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stair.core import ReadSpecification
from stair.records.keys import ids_digest
from stair.records.schemas import RESPONSES
from stair.records.seeds import seed_of
from stair.records.tables import read_table, write_table
from stair.sessions.renderer import Exchange, control_span
from tests.sessions.conftest import Finished
from tests.sessions.protocol_cases import PROBLEMS, READS, Study, WatchedEngine


@pytest.mark.parametrize("condition", ["vanilla", "native", "stair", "own_first"])
def test_rows_fit_the_table_and_prove_what_happened(finished: Finished, condition: str, tmp_path: Path) -> None:
    study, rows, path = finished.study, finished.rows[condition], tmp_path / "rows.parquet"
    write_table(path, RESPONSES, rows)
    assert read_table(path, RESPONSES) == [row | {"response_ids": list(row["response_ids"])} for row in rows]
    for row in rows:
        assert row["response_tokens"] == len(row["response_ids"])
        assert row["response"] == study.renderer.text(row["response_ids"])
        assert (row["finish_reason"] == "stop") == (row["response_ids"][-1] in study.renderer.stop_ids)
        assert (row["engine"], row["attention"], row["dtype"], row["device"]) == (
            "transformers",
            "sdpa",
            "float32",
            "cpu",
        )
    assert {row["finish_reason"] for row in rows} == {"stop", "length"}
    if condition in ("vanilla", "native"):
        for row in rows:
            assert row["bank_tokens"] is row["bank_sha256"] is row["bank_source"] is row["captured_tokens"] is None
            assert (row["controlled_tokens"], row["readout_norm"]) == (0, 0.0)
    if condition == "native":
        requests = finished.engines[condition].requests.values()
        assert all(request.read is None and request.capture is None for request in requests)


@pytest.mark.parametrize("condition", ["stair", "own_first"])
def test_the_bank_holds_what_the_turns_before_gave(finished: Finished, condition: str) -> None:
    study, rows = finished.study, finished.rows[condition]
    for start in range(0, len(rows), 4):
        session = rows[start : start + 4]
        assert [row["turn"] for row in session] == [1, 2, 3, 4]
        before = 0
        for row in session:
            assert row["bank_tokens"] == before
            before += row["captured_tokens"] or 0
            if row["turn"] == 1:
                assert row["bank_sha256"] is row["bank_source"] is None
                continue
            body = study.renderer.body_ids(row["response_ids"])
            if row["turn"] < 4:
                assert row["captured_tokens"] <= min(len(body), len(row["response_ids"]) - 1)
                if study.renderer.end_of_thinking not in body:
                    assert row["captured_tokens"] == min(len(body), len(row["response_ids"]) - 1)
            else:
                assert row["captured_tokens"] is None, "the last turn has no successor"
            assert row["bank_source"] == ("replayed" if condition == "stair" and row["turn"] == 2 else "decoded")
            assert row["controlled_tokens"] > 0
            # Of one entry there is one read, reflected or not: their difference is nothing.
            assert row["bank_tokens"] == 1 or (row["readout_norm"] > 0) == (row["bank_tokens"] > 0)
    assert any(row["bank_tokens"] for row in rows)
    assert not list((study.folder / condition / "banks").glob("*")), "an ended trajectory leaves no states on disk"


def test_what_the_engine_was_asked_is_what_the_rows_say(finished: Finished) -> None:
    study, rows, engine = finished.study, finished.rows["stair"], finished.engines["stair"]
    by_prompt = {(ids_digest(request.prompt_ids), request.seed): request for request in engine.requests.values()}
    assert len(by_prompt) == 3 * 5 * 2
    for start in range(0, len(rows), 4):
        history: list[Exchange] = []
        for row in rows[start : start + 4]:
            user = PROBLEMS[row["problem_id"]].user
            prompt = study.renderer.prompt_ids(history, user)
            assert row["prompt_ids_sha256"] == ids_digest(prompt)
            assert row["prompt_tokens"] == len(prompt)
            assert row["history_retokenised"] == any(
                study.renderer.retokenised(each["response_ids"]) for each in rows[start : start + row["turn"] - 1]
            )
            history.append(Exchange(user, study.renderer.visible_answer(row["response_ids"])))
            if row["turn"] == 1:
                continue
            request = by_prompt[row["prompt_ids_sha256"], row["seed"]]
            assert request.prompt_ids == tuple(prompt)
            assert request.read is not None and request.read.bank is not None
            assert request.read.span == control_span(prompt, study.renderer.user_header)
            assert request.read.bank.digest == row["bank_sha256"]
            assert request.read.bank.tokens == row["bank_tokens"]
            assert (request.capture is None) == (row["turn"] == 4)
            assert row["controlled_tokens"] == len(prompt) - request.read.span[0]


def test_a_bank_never_forgets_or_rewrites(finished: Finished) -> None:
    """The bank of a turn is that of the turn before with one segment more."""
    rows, requests = finished.rows["stair"], finished.engines["stair"].requests.values()
    banks = {request.read.bank.digest: request.read.bank for request in requests if request.read and request.read.bank}
    for start in range(0, len(rows), 4):
        two, three, four = (banks[row["bank_sha256"]] for row in rows[start + 1 : start + 4])
        for smaller, larger in ((two, three), (three, four)):
            assert [each.digest for each in larger.segments[:-1]] == [each.digest for each in smaller.segments]


def test_a_first_turn_that_was_given_to_another_prompt_is_refused(study: Study) -> None:
    for row in study.first_rows.values():
        row["prompt_ids_sha256"] = "0" * 64
    with pytest.raises(ValueError, match=r"saved T1 response to p\d, sample 0, was given to another prompt"):
        study.go("native", WatchedEngine(study.model))


def test_an_empty_bank_is_read_without_effect(study: Study) -> None:
    """A first answer without states (its first token ended it, or its thinking) leaves a bank of no entries."""
    stop, study.sessions = study.renderer.stop_ids[0], 2
    for row in study.first_rows.values():
        row |= {"response_ids": [stop], "response_tokens": 1, "response": ""}
    engine = WatchedEngine(study.model)
    rows = study.go("stair", engine)
    second = [row for row in rows if row["turn"] == 2]
    assert {(row["bank_tokens"], row["readout_norm"]) for row in second} == {(0, 0.0)}
    native = {
        (row["session_id"], row["sample"]): row
        for row in study.go("native", WatchedEngine(study.model))
        if row["turn"] == 2
    }
    for row in second:
        assert row["response_ids"] == native[row["session_id"], row["sample"]]["response_ids"]
    assert all(torch.isfinite(torch.tensor(row["readout_norm"])) for row in rows)


def test_the_read_that_a_condition_specifies_reaches_the_key_and_the_engine(study: Study) -> None:
    """T1 and its reconstruction are shared; each T2 is another response. A permutation is another one for each answer."""
    requested = {}
    for condition in ("stair", "direct_read", "stair_prefix", "kv_permutation"):
        engine = WatchedEngine(study.model)
        study.go(condition, engine)
        requested[condition] = engine.requests
        reads = [request.read for request in engine.requests.values() if request.read is not None]
        assert len(reads) == 3 * 5 * 2
        found = [read.specification for read in reads]
        if condition != "kv_permutation":
            assert set(found) == {READS[condition]}
            continue
        assert {replace(read, permutation_seed=None) for read in found} == {ReadSpecification()}
        named = {
            seed_of("kv_permutation", 2, "b", problem, sample)
            for problem in PROBLEMS
            for sample in range(study.samples)
        }
        assert {read.permutation_seed for read in found} == named
        assert len(named) == len(PROBLEMS) * study.samples
    keys = [set(requests) for requests in requested.values()]
    assert len(set.union(*keys)) == sum(map(len, keys)), "conditions share no response that reads a bank"
