"""Appendix B.1 of the paper: capture and the bank, a test for each sentence on sessions (docs/protocol.md has more)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from transformers.models.qwen3.modeling_qwen3 import repeat_kv

from stair.engines.base import Reconstruction, Request
from stair.method import Bank, Read, differential_read
from stair.records.keys import ids_digest
from tests.deviation import deviation
from tests.sessions.conftest import Finished
from tests.sessions.protocol_cases import PROBLEMS, Study, WatchedEngine


def reads(finished: Finished, condition: str) -> Iterator[tuple[Request, Bank]]:
    for request in finished.engines[condition].requests.values():
        if request.read is not None and request.read.bank is not None:
            yield request, request.read.bank


def row_of(finished: Finished, condition: str, request: Request) -> dict:
    """The row that a request became."""
    (row,) = [
        row
        for row in finished.rows[condition]
        if (row["prompt_ids_sha256"], row["seed"]) == (ids_digest(request.prompt_ids), request.seed) and row["turn"] > 1
    ]
    return row


def test_the_bank_keeps_one_entry_a_kv_head_and_captured_token(finished: Finished) -> None:
    """K/V heads in their original order and number: no copies for the query heads that share one."""
    facts = finished.engines["stair"].architecture
    for request, bank in reads(finished, "stair"):
        assert bank.tokens == row_of(finished, "stair", request)["bank_tokens"]
        for segment in bank.segments:
            assert segment.keys.shape == (2, facts.kv_heads, segment.tokens, facts.head_dim) == segment.values.shape
    assert facts.query_heads == 2 * facts.kv_heads


@pytest.mark.parametrize("backend", ["naive", "torch"])
def test_each_query_head_uses_its_corresponding_stored_head(backend: str) -> None:
    """The stored head that grouped-query attention gives it: a read of copies made by Transformers is the same."""
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = (
        torch.randn(2, heads, tokens, 16, generator=generator, dtype=torch.float64)
        for heads, tokens in ((6, 3), (2, 9), (2, 9))
    )
    normals = torch.randn(6, 16, generator=generator, dtype=torch.float64)
    found = differential_read(queries, keys, values, normals, backend=backend)
    copied = differential_read(queries, repeat_kv(keys, 3), repeat_kv(values, 3), normals, backend=backend)
    torch.testing.assert_close(found, copied, atol=1e-12, rtol=1e-12)
    swapped = differential_read(queries, keys.flip(1), values.flip(1), normals, backend=backend)
    assert ((found - swapped).abs().amax((-1, -2)) > 1e-3).all()


def test_captured_states_are_detached_and_on_the_host(finished: Finished) -> None:
    for _, bank in reads(finished, "stair"):
        for segment in bank.segments:
            for states in (segment.keys, segment.values):
                assert not states.requires_grad and states.grad_fn is None
                assert states.device.type == "cpu"


def test_a_thinking_models_span_ends_at_the_last_marker_and_without_one_with_what_was_processed(
    finished: Finished,
) -> None:
    renderer = finished.study.renderer
    if not renderer.thinking:
        pytest.skip("an Instruct model has another span")
    kinds = set()
    for row in finished.rows["own_first"]:
        if row["turn"] == 4:
            continue
        body = renderer.body_ids(row["response_ids"])
        if renderer.end_of_thinking in body:
            kinds.add("marker")
            assert row["captured_tokens"] == len(body) - 1 - body[::-1].index(renderer.end_of_thinking)
        else:
            kinds.add("none")
            assert row["captured_tokens"] == min(len(body), len(row["response_ids"]) - 1)
            assert renderer.visible_answer(row["response_ids"]) == "", "the ordinary message is empty"
    assert kinds == {"marker", "none"}


def test_an_instruct_model_keeps_the_answer_body_in_history_and_its_processed_states(finished: Finished) -> None:
    renderer = finished.study.renderer
    if renderer.thinking:
        pytest.skip("a thinking model has another span")
    for row in finished.rows["own_first"]:
        body = renderer.body_ids(row["response_ids"])
        assert renderer.visible_answer(row["response_ids"]) == renderer.tokenizer.decode(body, skip_special_tokens=True)
        if row["turn"] < 4:
            assert row["captured_tokens"] == min(len(body), len(row["response_ids"]) - 1)


@pytest.mark.parametrize("condition", ["stair", "own_first"])
def test_the_token_sampled_last_has_no_state_also_at_the_limit(finished: Finished, condition: str) -> None:
    captured = [row for row in finished.rows[condition] if row["turn"] < 4]
    assert {row["finish_reason"] for row in captured} == {"stop", "length"}
    assert all(row["captured_tokens"] <= row["response_tokens"] - 1 for row in captured)
    if not finished.study.renderer.thinking:
        limited = [row for row in captured if row["finish_reason"] == "length"]
        assert all(row["captured_tokens"] == row["response_tokens"] - 1 for row in limited)


def test_evaluation_captures_states_during_decoding(finished: Finished) -> None:
    """Nothing is reconstructed but the reused T1, and a reconstruction under the same read would give what was decoded."""
    stair, engine = finished.engines["stair"], WatchedEngine(finished.study.model)
    assert len(stair.reconstructions) == 10
    compared = 0
    for request, bank in list(reads(finished, "own_first"))[:8]:
        row = row_of(finished, "own_first", request)
        if row["turn"] != 2 or not bank.tokens:
            continue
        (first,) = [
            each
            for each in finished.engines["own_first"].requests.values()
            if each.read is None and each.seed == _first(finished, row)["seed"]
        ]
        assert first.capture is not None
        ids = tuple(_first(finished, row)["response_ids"])
        (reconstructed,) = engine.reconstruct(
            [Reconstruction("r", first.prompt_ids, ids, first.stop_ids, first.capture)]
        )
        assert deviation(reconstructed, bank.segments[0]) < 1e-4
        compared += 1
    assert compared > 0


def _first(finished: Finished, row: dict) -> dict:
    (first,) = [
        each
        for each in finished.rows["own_first"]
        if (each["session_id"], each["sample"], each["turn"]) == (row["session_id"], row["sample"], 1)
    ]
    return first


def test_for_a_reused_t1_the_saved_tokens_go_through_the_frozen_backbone(finished: Finished) -> None:
    saved = {tuple(row["response_ids"]) for row in finished.rows["vanilla"]}
    reconstructions = finished.engines["stair"].reconstructions
    assert {each.response_ids for each in reconstructions} <= saved
    assert all(each.read is None and each.adapter is None for each in reconstructions)
    second = [row for row in finished.rows["stair"] if row["turn"] == 2]
    assert {row["bank_source"] for row in second} == {"replayed"}
    assert finished.engines["own_first"].reconstructions == []


@pytest.mark.parametrize("condition", ["native", "stair"])
def test_every_turn_prefills_the_full_visible_conversation_anew(study: Study, condition: str) -> None:
    """Every prompt goes through the model whole, from position 0, with no cache of an earlier turn."""
    study.sessions, study.samples = 1, 1
    engine = WatchedEngine(study.model)
    seen: list[tuple[int, int]] = []

    def watch(_: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        positions = kwargs["position_ids"]
        if kwargs["input_ids"].shape[1] > 1:
            seen.append((int(positions[0, 0]), int(positions[0, -1]) + 1))

    hook = study.model.register_forward_pre_hook(watch, with_kwargs=True)
    try:
        rows = study.go(condition, engine)
    finally:
        hook.remove()
    expected = [(0, row["prompt_tokens"]) for row in rows if row["turn"] > 1]
    reconstructed = [(0, len(each.prompt_ids) + len(each.response_ids) - 1) for each in engine.reconstructions]
    assert sorted(seen) == sorted(expected + reconstructed)


def test_stair_begins_at_t2_where_a_condition_has_its_own_t1(finished: Finished) -> None:
    """Appendix C.1, of LoRA + STAIR: T1 is generated without a read, and its states are captured."""
    opening = {tuple(finished.study.renderer.prompt_ids([], problem.user)) for problem in PROBLEMS.values()}
    own = [each for each in finished.engines["own_first"].requests.values() if each.prompt_ids in opening]
    assert len(own) == 10
    assert all(request.read is None and request.capture is not None for request in own)
    later = [each for each in finished.engines["own_first"].requests.values() if each.prompt_ids not in opening]
    assert all(isinstance(request.read, Read) for request in later)


def test_a_session_goes_on_after_a_response_at_the_limit(finished: Finished) -> None:
    """Appendix C.3: responses reaching the output limit are scored on what is there, and the next problem is asked."""
    limited = [row for row in finished.rows["native"] if row["finish_reason"] == "length" and row["turn"] < 4]
    places = {(row["session_id"], row["sample"], row["turn"]) for row in finished.rows["native"]}
    assert limited
    assert all((row["session_id"], row["sample"], row["turn"] + 1) in places for row in limited)
