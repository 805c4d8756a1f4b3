"""A response is the same alone, in a batch, in any order: tokens and states, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from stair.engines.base import Capture, Completion
from tests.conftest import LAYERS, random_model
from tests.deviation import deviation
from tests.engines.engine_cases import assert_same, engine, request, run, various

Models = Callable[..., PreTrainedModel]
some = pytest.mark.parametrize(("architecture", "prefill"), [("qwen3", 1), ("qwen3_5", 3), ("llama", 3)])
PAIRS = [
    ("qwen3", "sdpa", 1), ("qwen3", "eager", 2), ("qwen3_5", "sdpa", 2), ("qwen3_5", "eager", 1), ("llama", "sdpa", 2),
    ("llama", "eager", 1),
]  # fmt: skip
"""Each architecture with each attention and each prefill, and each attention with each prefill."""


@some
def test_alone_in_a_batch_and_in_reverse(small_model: Models, architecture: str, prefill: int) -> None:
    model, requests = small_model(architecture), various(torch.float32)
    together = run(model, requests, prefill=prefill)
    assert together.keys() == {each.key for each in requests}
    reverse = run(model, requests[::-1], prefill=prefill)
    for each in requests:
        alone = run(model, [each], prefill=prefill)[each.key]
        assert_same(together[each.key], alone)
        assert_same(reverse[each.key], alone)
    lengths = {len(completion.response_ids) for completion in together.values()}
    assert len(lengths) > 3, "the responses end at many lengths, so rows were refilled at many steps"


@pytest.mark.parametrize(("architecture", "attention", "prefill"), PAIRS)
def test_a_long_neighbour_changes_nothing(architecture: str, attention: str, prefill: int) -> None:
    """The neighbour makes the visible cache many blocks longer than the row needs."""
    model = random_model(architecture, attn_implementation=attention)
    assert engine(model).identity.attention == attention
    for number in range(3):
        short = request(f"short {number}", 5 + 9 * number, 20, stop_ids=())
        alone = run(model, [short], prefill=prefill)[short.key]
        beside = run(model, [request("long", 440, 20, stop_ids=()), short], prefill=prefill)
        assert_same(beside[short.key], alone)


@some
def test_submitted_requests_are_the_same_as_given_ones(small_model: Models, architecture: str, prefill: int) -> None:
    model, requests = small_model(architecture), various(torch.float32)
    given = run(model, requests, prefill=prefill)
    runner, found, waiting = engine(model, prefill=prefill), {}, requests[3:]
    for completion in runner.run(requests[:3]):
        found[completion.key] = completion
        if waiting:
            runner.submit(waiting.pop())
    assert found.keys() == given.keys()
    for key, completion in found.items():
        assert_same(completion, given[key])


def test_an_engine_runs_again_and_again(small_model: Models) -> None:
    model, requests = small_model("qwen3_5"), various(torch.float32, count=5)
    expected, reused = run(model, requests), engine(model)
    for order in (requests, requests[::-1], requests[2:]):
        for completion in reused.run(order):
            assert_same(completion, expected[completion.key])


def test_a_response_may_end_where_the_cache_ends(small_model: Models) -> None:
    """The longest row fills its block to the last slot and ends, while a shorter one goes on beside the free row."""
    model, block = small_model("qwen3_5"), 32
    cases = [
        request("fills", 4, block - 3, stop_ids=()),
        request("goes on", 2, block + 4, stop_ids=()),
        request("first", 3, 2, stop_ids=()),
        request("filled", 3, block + 1, stop_ids=()),
        request("later", 3, block + 2, stop_ids=()),
    ]
    for pair in (cases[:2], cases[2:]):
        found = run(model, pair, width=2, block=block)
        for each in pair:
            assert len(found[each.key].response_ids) == each.max_new_tokens
            assert_same(found[each.key], run(model, [each], width=2, block=block)[each.key])


def test_samples_of_one_prompt_share_its_prefill_and_differ_by_seed(small_model: Models) -> None:
    model = small_model("qwen3")
    base = request("base", 20, 12, stop_ids=())
    samples = [
        request(f"sample {seed}", 20, 12, stop_ids=(), prompt_ids=base.prompt_ids, seed=seed) for seed in range(4)
    ]
    calls: list[int] = []
    handle = model.model.layers[0].register_forward_pre_hook(lambda _, args: calls.append(args[0].shape[1]))
    try:
        found: dict[str, Completion] = run(model, samples)
    finally:
        handle.remove()
    assert calls.count(20) == 1, "the prompt was processed once for all four"
    assert len({completion.response_ids for completion in found.values()}) == 4
    for each in samples:
        assert_same(found[each.key], run(model, [each])[each.key])


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5", "llama"])
def test_padding_is_not_seen(small_model: Models, architecture: str) -> None:
    """A prompt that was padded and one that was not give the same logits up to rounding, and the same states."""
    model = small_model(architecture, torch.float64)
    for number, length in enumerate((3, 31, 32, 33)):
        each = request(f"request {number}", length, 6, stop_ids=(), capture=Capture(LAYERS, None))
        plain, padded = (run(model, [each], prefill=prefill)[each.key] for prefill in (1, 2))
        assert padded.response_ids == plain.response_ids
        assert plain.bank is not None and padded.bank is not None
        assert deviation(padded.bank, plain.bank) < 1e-5
