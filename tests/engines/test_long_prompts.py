"""Prefill and reconstruction in chunks: the same tokens and states as in one go, with the auxiliary branch across chunks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache

from stair.engines.base import Reconstruction, Request
from stair.engines.transformers import TransformersEngine, passes, prefill
from stair.method import Read
from tests.conftest import LAYERS, TOKENS, random_model
from tests.deviation import deviation
from tests.engines.engine_cases import assert_same, random_bank, reflector, request

Models = Callable[..., PreTrainedModel]


def engine(model: PreTrainedModel, chunk: int, width: int) -> TransformersEngine:
    return TransformersEngine(
        model, tokens=TOKENS, layers=LAYERS, batch_width=4, prefill_width=width, prefill_chunk=chunk, cache_block=32
    )


def long_requests(dtype: torch.dtype) -> list[Request]:
    """Prompts of several chunks; spans within one, over several, and over the end of one."""
    found = []
    for number, (prompt, start) in enumerate([(300, 280), (300, 120), (257, 256), (63, 10), (64, 0), (65, 60)]):
        read = Read(random_bank(40, 30, dtype=dtype, seed=number), reflector(number), span=(start, prompt))
        plain = request(f"long {number}", prompt, 10, stop_ids=())
        found += [replace(plain, read=read), replace(plain, key=f"native {number}")]
    return found


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
@pytest.mark.parametrize("width", [1, 3])
def test_prompts_in_chunks_give_what_whole_ones_give(small_model: Models, architecture: str, width: int) -> None:
    model, requests = small_model(architecture, torch.float64), long_requests(torch.float64)
    whole = {done.key: done for done in engine(model, 8192, width).run(requests)}
    sizes: set[int] = set()
    hook = (
        model.get_decoder()
        .layers[0]
        .register_forward_pre_hook(  # type: ignore[union-attr]
            lambda _, args: sizes.add(args[0].shape[1])
        )
    )
    try:
        chunked_engine = engine(model, 64, width)
        chunked = {done.key: done for done in chunked_engine.run(requests)}
        reconstructions = [
            Reconstruction(each.key, each.prompt_ids, chunked[each.key].response_ids, (), each.capture, each.read)
            for each in requests
            if each.capture is not None
        ]
        segments = chunked_engine.reconstruct(reconstructions)
    finally:
        hook.remove()
    assert max(sizes) == 64
    # Gated DeltaNet computes in single precision whatever the model's.
    bound = 1e-12 if architecture == "qwen3" else 1e-5
    for each in requests:
        one, other = chunked[each.key], whole[each.key]
        assert one.response_ids == other.response_ids
        assert one.bank is not None and other.bank is not None
        assert deviation(one.bank, other.bank) < bound
        if each.read is not None:
            assert one.receipt is not None and other.receipt is not None
            assert (
                one.receipt.controlled_tokens
                == other.receipt.controlled_tokens
                == len(each.prompt_ids) - each.read.span[0]
            )
            assert one.receipt.readout_norm == pytest.approx(other.receipt.readout_norm, rel=1e-5)
            native = chunked[f"native {each.key.removeprefix('long ')}"]
            assert one.response_ids != native.response_ids or deviation(one.bank, native.bank or one.bank) > 1e-3
    for reconstruction, segment in zip(reconstructions, segments, strict=True):
        bank = chunked[reconstruction.key].bank
        assert bank is not None
        assert deviation(segment, bank) < 1e-5


@pytest.mark.parametrize(("architecture", "width"), [("qwen3", 1), ("qwen3_5", 3)])
def test_in_chunks_a_response_is_the_same_bits_alone_and_among_others(
    small_model: Models, architecture: str, width: int
) -> None:
    """FP32: the attention output's update is a product of a row's own controlled tokens."""
    model, requests = small_model(architecture), long_requests(torch.float32)
    together = {done.key: done for done in engine(model, 64, width).run(requests)}
    reverse = {done.key: done for done in engine(model, 64, width).run(requests[::-1])}
    for each in requests:
        (alone,) = engine(model, 64, width).run([each])
        assert_same(together[each.key], alone)
        assert_same(reverse[each.key], alone)


class Held:
    """The prompts' caches that exist; the greatest number at a prefill, and those that exist at a decoding step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, model: PreTrainedModel) -> None:
        alive: weakref.WeakSet[DynamicCache] = weakref.WeakSet()
        self.prefills, self.together, self.while_decoding = 0, 0, set[int]()

        def made(*_: object, **options: object) -> DynamicCache:
            cache = DynamicCache(**options)  # type: ignore[arg-type]
            alive.add(cache)
            self.prefills += 1
            self.together = max(self.together, len(alive))
            return cache

        def step(_: nn.Module, __: object, named: dict[str, torch.Tensor]) -> None:
            if named["input_ids"].shape[1] == 1:
                self.while_decoding.add(len(alive))

        monkeypatch.setattr(passes, "DynamicCache", made)
        model.register_forward_pre_hook(step, with_kwargs=True)


def test_the_states_of_one_prompt_exist_beside_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight prompts without a read, for a batch of four."""
    model = random_model("qwen3_5")
    held = Held(monkeypatch, model)
    monkeypatch.setattr(prefill, "KEPT_TOKENS", 100)
    requests = [request(f"native {number}", 101 + number, 5, stop_ids=()) for number in range(8)]
    assert len(list(engine(model, 8192, 1).run(requests))) == 8
    assert (held.prefills, held.together, held.while_decoding) == (8, 1, {0})


def test_a_prompt_is_prefilled_once_for_samples_that_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six samples of each of three prompts, also where a row frees alone."""
    model = random_model("qwen3")
    held = Held(monkeypatch, model)
    prompts = [request(f"prompt {number}", 40, 1).prompt_ids for number in range(3)]
    requests = [
        request(f"{prompt} {sample}", 1, 3 + sample, stop_ids=(), prompt_ids=prompts[prompt])
        for prompt in range(3)
        for sample in range(6)
    ]
    found = {done.key: done for done in engine(model, 8192, 1).run(requests)}
    assert (held.prefills, held.together) == (3, 1)
    for each in requests[::5]:
        (alone,) = engine(model, 8192, 1).run([each])
        assert_same(found[each.key], alone)
