"""One response that cannot be generated: the engine names it and generates all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from stair.engines.base import Capture, Reconstruction, Request
from stair.method import Read
from tests.conftest import LAYERS
from tests.engines.engine_cases import assert_same, engine, random_bank, reflector, request, run, various

Models = Callable[..., PreTrainedModel]
LONGEST = 120


@contextmanager
def short_device(model: PreTrainedModel, positions: int = LONGEST) -> Iterator[None]:
    """A device whose memory holds sequences of so many positions: torch's own error beyond."""

    def refuse(_: torch.nn.Module, __: Any, named: dict[str, Any]) -> None:
        if int(named["position_ids"].max()) >= positions:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate position {positions}.")

    hook = model.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.parametrize(
    ("architecture", "prompt", "limit"), [("qwen3", 150, 4), ("qwen3_5", 100, 40)], ids=["its prompt", "its response"]
)
def test_a_response_that_does_not_fit_the_device_is_named_and_all_others_are_generated(
    small_model: Models, architecture: str, prompt: int, limit: int
) -> None:
    model = small_model(architecture)
    requests = various(torch.float32, 9)
    expected = run(model, requests, width=4)
    requests.insert(3, request("too long", prompt, limit, stop_ids=()))
    failed: list[tuple[str, str]] = []
    one = engine(model, width=4)
    one.failed = lambda key, reason: failed.append((key, reason))
    with short_device(model):
        found = {done.key: done for done in one.run(requests)}
    assert [key for key, _ in failed] == ["too long"]
    assert "does not suffice for a single response" in failed[0][1] and "\n" not in failed[0][1]
    assert found.keys() == expected.keys()
    assert {key: done.response_ids for key, done in found.items()} == {
        key: done.response_ids for key, done in expected.items()
    }
    # Afterwards the batch is as wide as before.
    repeated = {done.key: done for done in one.run(various(torch.float32, 9))}
    for key, done in repeated.items():
        assert_same(done, expected[key])


def test_two_that_do_not_fit_are_both_named(small_model: Models) -> None:
    model = small_model("qwen3")
    requests = [request(name, length, 3, stop_ids=()) for name, length in (("a", 150), ("b", 10), ("c", 140))]
    failed: list[str] = []
    one = engine(model, width=2)
    one.failed = lambda key, reason: failed.append(key)
    with short_device(model):
        assert [done.key for done in one.run(requests)] == ["b"]
    assert failed == ["a", "c"]


def test_a_reconstruction_that_does_not_fit_ends_nothing_else(small_model: Models) -> None:
    """The caller learns of it while it draws the next request, and the run goes on at its full width."""
    model = small_model("qwen3")
    requests = various(torch.float32, 6)
    expected = run(model, requests, width=4)
    long = Reconstruction("long", tuple(range(20, 170)), (30, 31), (), Capture(LAYERS, None))
    one, refused = engine(model, width=4), list[str]()
    one.failed = lambda key, reason: refused.append(key)

    def drawn() -> Iterator[Request]:
        for number, each in enumerate(requests):
            if number == 2:
                with pytest.raises(MemoryError):
                    one.reconstruct([long])
            yield each

    with short_device(model):
        found = {done.key: done for done in one.run(drawn())}
    assert refused == []
    assert {key: done.response_ids for key, done in found.items()} == {
        key: done.response_ids for key, done in expected.items()
    }


def test_a_response_whose_logits_become_nan_is_named_and_leaves_nothing_behind(small_model: Models) -> None:
    """One prompt's logits are NaN after some tokens, as where a precision is too narrow for it."""
    model = small_model("qwen3_5")
    requests = various(torch.float32, 9)
    expected = run(model, requests, width=4)
    unlucky = request("unlucky", 60, 20, stop_ids=())
    requests.insert(2, unlucky)
    failed: list[tuple[str, str]] = []
    one = engine(model, width=4)
    one.failed = lambda key, reason: failed.append((key, reason))

    def spoil(_: torch.nn.Module, __: Any, named: dict[str, Any], output: Any) -> None:
        # No other sequence is at this position.
        rows = (named["position_ids"][:, -1] == 65).nonzero()[:, 0]
        output.logits[rows] = torch.nan

    hook = model.register_forward_hook(spoil, with_kwargs=True)
    try:
        found = {done.key: done for done in one.run(requests)}
    finally:
        hook.remove()
    assert [key for key, _ in failed] == ["unlucky"]
    assert failed[0][1].startswith("the model's logits became NaN or infinite: ")
    assert {key: done.response_ids for key, done in found.items()} == {
        key: done.response_ids for key, done in expected.items()
    }


def test_states_that_became_nan_do_not_reach_the_next_response_in_their_row(small_model: Models) -> None:
    model = small_model("qwen3_5")
    bank = random_bank(5)
    bank.segments[0].values.fill_(torch.nan)
    broken = request("broken", 90, 20, read=Read(bank, reflector(), span=(2, 90)))
    requests = various(torch.float32, 4)
    expected = run(model, requests, width=1)
    failed: list[str] = []
    one = engine(model, width=1)
    one.failed = lambda key, reason: failed.append(key)
    for done in one.run([broken, *requests]):
        assert_same(done, expected[done.key])
    assert failed == ["broken"]
