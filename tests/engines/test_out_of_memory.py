"""A device that runs out of memory: the batch starts again at a smaller width, and responses have the same tokens."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from stair.engines.base import Reconstruction, Request
from stair.engines.transformers import TransformersEngine
from stair.engines.transformers.batch import Batch
from stair.engines.transformers.decode_capture import DecodeCapture
from stair.method import Read
from tests.conftest import LAYERS, TOKENS
from tests.deviation import deviation
from tests.engines.engine_cases import GREEDY, engine, random_bank, reflector, request, run, various

Models = Callable[..., PreTrainedModel]
HYBRID = "qwen3_5"
"""Its layers have states of both kinds."""


@contextmanager
def small_device(model: PreTrainedModel, *, rows: int, columns: int = 10**9, at: int = 2) -> Iterator[list[int]]:
    """A device whose allocator refuses what is wider than `rows` or longer than `columns`: torch's own error at a layer's MLP.

    The layers before it have been through the step by then, with all that they write to their caches. Gives the shapes that
    were refused.
    """
    refused: list[int] = []

    def refuse(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        width, length = inputs[0].shape[:2]
        if width > rows or length > columns:
            refused.append(width)
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {width} rows of {length} tokens.")

    layers: Any = model.get_decoder().layers
    hook = layers[at].mlp.register_forward_pre_hook(refuse)
    try:
        yield refused
    finally:
        hook.remove()


def decoded_together(found: TransformersEngine, requests: list[Request]) -> dict[str, Any]:
    return {completion.key: completion for completion in found.run(requests)}


@pytest.mark.parametrize(("at", "prefill"), [(0, 2), (3, 1)])
def test_the_batch_shrinks_and_every_response_is_what_it_would_have_been(
    small_model: Models, at: int, prefill: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight rows on a device for three: steps break off in the middle of the model."""
    model = small_model(HYBRID, torch.float64)
    requests = various(torch.float64, 11)
    expected = run(model, requests, width=8, prefill=prefill)
    shrinking = engine(model, width=8, prefill=prefill)
    with small_device(model, rows=3, at=at) as refused:
        found = decoded_together(shrinking, requests)
    assert set(refused) == {8, 4}
    # This device stays too small, so the batch shrinks again whenever it tries its whole width.
    warnings = [f"warning: out of memory on cpu: the batch starts again with {rows} rows" for rows in (4, 2)]
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == warnings and set(told) == set(warnings)
    assert found.keys() == expected.keys()
    for key, one in found.items():
        other = expected[key]
        assert (one.response_ids, one.finish_reason) == (other.response_ids, other.finish_reason)
        assert (one.bank is None) == (other.bank is None)
        if one.bank is not None and other.bank is not None and other.bank.tokens:
            assert deviation(one.bank, other.bank) < 1e-5


def test_the_batch_has_its_whole_width_again_once_the_long_response_has_ended(small_model: Models) -> None:
    """A device for 320 positions of all rows together: four rows beside one long response, then eight."""
    model = small_model(HYBRID, torch.float64)
    long = request("long", 60, 20, stop_ids=(), sampling=GREEDY)
    requests = [long, *(request(f"short {n}", 5, 12, stop_ids=(), sampling=GREEDY) for n in range(30))]
    expected = run(model, requests, width=8, block=8)
    widths: list[int] = []

    def refuse(_: torch.nn.Module, __: Any, named: dict[str, Any]) -> None:
        rows, columns = named["input_ids"].shape
        if columns == 1:
            widths.append(rows)
            if rows * int(named["position_ids"].max()) > 320:
                raise torch.OutOfMemoryError("CUDA out of memory.")

    hook = model.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        found = run(model, requests, width=8, block=8)
    finally:
        hook.remove()
    assert {key: one.response_ids for key, one in found.items()} == {
        key: one.response_ids for key, one in expected.items()
    }
    assert [width for width, before in zip(widths, [0, *widths], strict=False) if width != before] == [8, 4, 8]


def test_memory_that_runs_out_at_any_pass_changes_no_token(small_model: Models) -> None:
    """Once in each pass, of a prompt or of a step: the layers before the third have written to their caches by then."""
    model = small_model(HYBRID, torch.float64)
    requests = [
        replace(each, max_new_tokens=limit)
        for each, limit in zip(various(torch.float64, 5), (7, 3, 5, 2, 4), strict=True)
    ]
    passes, refused = 0, list[int]()

    def refuse(*_: object) -> None:
        nonlocal passes
        passes += 1
        if passes in refused:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    layers: Any = model.get_decoder().layers
    hook = layers[2].mlp.register_forward_pre_hook(refuse)
    try:
        expected = run(model, requests, width=2)
        count = passes
        assert count > 5 + 7
        for number in range(1, count + 1):
            passes, refused = 0, [number]
            found = list(engine(model, width=2).run(requests))
            assert passes > number
            assert {one.key: one.response_ids for one in found} == {
                key: one.response_ids for key, one in expected.items()
            }
            assert len(found) == len(expected)
            for one in found:
                other = expected[one.key]
                assert (one.finish_reason, one.receipt is None) == (other.finish_reason, other.receipt is None)
                if one.bank is not None and other.bank is not None and other.bank.tokens:
                    assert deviation(one.bank, other.bank) < 1e-5
    finally:
        hook.remove()


def test_long_prompts_go_on_in_smaller_chunks(small_model: Models, capsys: pytest.CaptureFixture[str]) -> None:
    model = small_model(HYBRID, torch.float64)
    requests = various(torch.float64, 8)
    longer = [
        Request(**{**vars(each), "prompt_ids": tuple(i * 7 % TOKENS for i in range(300)), "read": None})
        for each in requests[:3]
    ]
    expected = run(model, longer, width=2)
    one = engine(model, width=2)
    with small_device(model, rows=1, columns=130):
        found = decoded_together(one, longer)
        reconstructions = [
            Reconstruction(each.key, each.prompt_ids, found[each.key].response_ids, each.stop_ids, each.capture)
            for each in longer
            if each.capture is not None
        ]
        segments = one.reconstruct(reconstructions)
    assert {key: done.response_ids for key, done in found.items()} == {
        key: done.response_ids for key, done in expected.items()
    }
    told = capsys.readouterr().err
    assert "the batch starts again with 1 rows" in told
    assert "prompts are processed in chunks of 128 tokens" in told
    for reconstruction, segment in zip(reconstructions, segments, strict=True):
        bank = found[reconstruction.key].bank
        assert bank is not None
        assert deviation(segment, bank) < 1e-5


def test_a_prefill_that_breaks_off_leaves_no_copy_of_its_bank_on_the_device(small_model: Models) -> None:
    model, bank = small_model("qwen3"), random_bank(30, 20)
    reading = request("reads", 20, 4, read=Read(bank, reflector(), span=(10, 20)))
    with small_device(model, rows=0, at=3) as refused, pytest.raises(MemoryError):
        run(model, [reading], width=1)
    assert refused
    assert bank._resident is None


def test_a_device_too_small_for_one_response_says_so_in_one_line(small_model: Models) -> None:
    model = small_model("qwen3")
    with small_device(model, rows=0), pytest.raises(MemoryError) as error:
        run(model, various(torch.float32, 3), width=4)
    assert "does not suffice for a single response; finished responses are kept" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_source_of_requests_that_runs_out_of_memory_is_no_end_of_the_requests(small_model: Models) -> None:
    def source() -> Iterator[Request]:
        yield request("a", 12, 4)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.")

    with pytest.raises(MemoryError, match="does not suffice"):
        list(engine(small_model("qwen3"), width=2).run(source()))


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
        "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.",
    ],
)
def test_memory_that_a_library_lacks_is_memory_too(small_model: Models, message: str) -> None:
    model, requests = small_model("qwen3", torch.float64), various(torch.float64, 3)
    expected = run(model, requests, width=4)

    def fail(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if inputs[0].shape[0] > 2:
            raise RuntimeError(message)

    layers: Any = model.get_decoder().layers
    hook = layers[1].mlp.register_forward_pre_hook(fail)
    try:
        found = run(model, requests, width=4)
    finally:
        hook.remove()
    assert {key: one.response_ids for key, one in found.items()} == {
        key: one.response_ids for key, one in expected.items()
    }


def test_another_error_is_not_taken_for_memory(small_model: Models) -> None:
    model = small_model("qwen3")

    def fail(*_: object) -> None:
        raise RuntimeError("a kernel failed")

    layers: Any = model.get_decoder().layers
    hook = layers[1].mlp.register_forward_pre_hook(fail)
    try:
        with pytest.raises(RuntimeError, match="a kernel failed"):
            run(model, various(torch.float32, 3), width=4)
    finally:
        hook.remove()


def test_reconstructions_shrink_by_themselves(small_model: Models) -> None:
    model = small_model("qwen3", torch.float64)
    reconstructions = [
        Reconstruction(each.key, each.prompt_ids, tuple(range(40, 50)), (), each.capture)
        for each in various(torch.float64, 8)
        if each.capture is not None
    ]
    expected = engine(model, width=8, prefill=4).reconstruct(reconstructions)
    with small_device(model, rows=2):
        found = engine(model, width=8, prefill=4).reconstruct(reconstructions)
    assert all(deviation(one, other) < 1e-12 for one, other in zip(found, expected, strict=True))
    assert {one.layers for one in found} == {LAYERS}


def test_a_batch_that_is_given_up_holds_no_memory(small_model: Models) -> None:
    """Its caches are the greatest part of what was used: kept, the next step would find no more room than this one."""
    made: list[weakref.ref[Batch]] = []

    class Watched(TransformersEngine):
        def _new_batch(self) -> Batch:
            assert all(batch() is None for batch in made), "an earlier batch is still alive"
            batch = super()._new_batch()
            made.append(weakref.ref(batch))
            return batch

    model = small_model(HYBRID, torch.float64)
    requests = various(torch.float64, 8)
    stream = Watched(model, tokens=TOKENS, layers=LAYERS, batch_width=8, cache_block=32).run(requests)
    found = [next(stream)]
    with small_device(model, rows=2, at=3):
        found += list(stream)
    assert len(made) >= 3
    assert len(found) == len(requests)


def test_memory_that_runs_out_for_the_states_of_an_ended_response(
    small_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two responses end at one step, and the second's states cannot be copied: both are generated again, and yielded once."""
    model = small_model(HYBRID, torch.float64)
    requests = [request(f"r{number}", 10, 6, stop_ids=(), sampling=GREEDY) for number in range(4)]
    expected = run(model, requests, width=4)
    segment, calls = DecodeCapture.segment, 0

    def refusing(self: DecodeCapture, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate a block.")
        return segment(self, *arguments)

    monkeypatch.setattr(DecodeCapture, "segment", refusing)
    found = list(engine(model, width=4).run(requests))
    assert calls > 2
    assert sorted(done.key for done in found) == sorted(expected)
    assert all(done.response_ids == expected[done.key].response_ids for done in found)
