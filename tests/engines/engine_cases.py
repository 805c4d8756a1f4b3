"""Requests of many kinds for the small random models."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import torch

from stair.core import ReadSpecification
from stair.engines.base import Capture, Completion, Request, SamplingSettings
from stair.engines.transformers import TransformersEngine
from stair.method import Bank, Read, Reflector, Segment
from tests.conftest import LAYERS, TOKENS

STOP_IDS = tuple(range(20))
"""Among 300 ids: a response ends by itself after about fifteen tokens."""

MARKER = 30
"""Stands for the end of thinking."""

GREEDY = SamplingSettings(temperature=0.0)
LAWS = (
    GREEDY,
    SamplingSettings(),
    SamplingSettings(temperature=0.7, top_p=0.8, top_k=20),
    SamplingSettings(temperature=1.0, top_p=0.95, top_k=20, presence_penalty=1.5),
    SamplingSettings(temperature=1.5, repetition_penalty=1.3, truncation="joint", top_k=50, top_p=0.9),
)


def request(key: str, prompt: int, limit: int, **changes: Any) -> Request:
    """A request with a random prompt of that length, a function of its key alone."""
    source = random.Random(key)
    base = Request(
        key=key,
        prompt_ids=tuple(source.randrange(TOKENS) for _ in range(prompt)),
        sampling=LAWS[source.randrange(len(LAWS))],
        seed=source.getrandbits(62),
        max_new_tokens=limit,
        stop_ids=STOP_IDS,
        capture=Capture(LAYERS, None),
    )
    return replace(base, **changes)


def random_bank(*lengths: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Bank:
    """A bank of random states in segments of those lengths."""
    generator = torch.Generator().manual_seed(seed)

    def states(length: int) -> torch.Tensor:
        return torch.randn(len(LAYERS), 2, length, 16, generator=generator).to(dtype)

    return Bank(LAYERS, [Segment(LAYERS, states(length), states(length)) for length in lengths])


def reflector(seed: int = 1) -> Reflector:
    return Reflector.draw(LAYERS, 4, 16, seed)


SPECIFICATIONS = (
    ReadSpecification(),
    ReadSpecification(limit=13, permutation_seed=3),
    ReadSpecification("direct", smoothing=1e-5),
)


def various(dtype: torch.dtype, count: int = 9) -> list[Request]:
    """Prompts and limits of all lengths, with and without a read, so that rows are refilled and blocks crossed."""
    found = []
    for number in range(count):
        prompt = (3, 17, 31, 6, 45)[number % 5]
        read = None
        if number % 3 == 1:
            bank = random_bank(11, 20, dtype=dtype, seed=number)
            read = Read(
                bank, reflector(number), (prompt // 2, prompt), SPECIFICATIONS[number // 3 % len(SPECIFICATIONS)]
            )
        found.append(
            request(
                f"request {number}",
                prompt,
                (40, 9, 23)[number % 3],
                read=read,
                capture=None if number % 4 == 3 else Capture(LAYERS, MARKER if number % 2 else None),
                sampling=LAWS[number % len(LAWS)],
                stop_ids=STOP_IDS if number % 3 else (),
            )
        )
    return found


def engine(
    model: Any, width: int = 4, block: int = 32, layers: tuple[int, ...] = LAYERS, prefill: int = 1
) -> TransformersEngine:
    return TransformersEngine(
        model, tokens=TOKENS, layers=layers, batch_width=width, prefill_width=prefill, cache_block=block
    )


def run(model: Any, requests: list[Request], **options: int) -> dict[str, Completion]:
    """All completions of a fresh engine, by key."""
    return {completion.key: completion for completion in engine(model, **options).run(requests)}


def assert_same(found: Completion, expected: Completion) -> None:
    """Two completions are the same, bit for bit."""
    assert found.response_ids == expected.response_ids
    assert found.finish_reason == expected.finish_reason
    assert (found.bank is None) == (expected.bank is None)
    if found.bank is not None and expected.bank is not None:
        assert torch.equal(found.bank.keys, expected.bank.keys)
        assert torch.equal(found.bank.values, expected.bank.values)
        assert found.bank.digest == expected.bank.digest
    assert (found.receipt is None) == (expected.receipt is None)
    if found.receipt is not None and expected.receipt is not None:
        assert found.receipt.readout_norm == expected.receipt.readout_norm
