"""Prefill of prompts, with the auxiliary branch where a request has one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from transformers.cache_utils import DynamicCache

from stair.engines.base import Request
from stair.engines.transformers.passes import Passes
from stair.method import Receipt


@dataclass(frozen=True)
class Prefilled:
    """A processed prompt: its states, the logits behind its last token, what its read did."""

    cache: DynamicCache
    """States of all sequences that were processed together."""
    row: int
    """Which of them this one is."""
    padding: int
    """Columns before its first token."""
    logits: torch.Tensor
    """`[vocabulary]`."""
    receipt: Receipt | None


Place = Callable[[int, Prefilled], None]
"""Receives a request's number and its processed prompt; it must not keep the prompt's states."""

KEPT_TOKENS = 2048
"""Longer prompts contain a history, which later requests rarely share. Their states are not kept between two calls."""


class Prefill:
    """Prefills prompts. Samples of one prompt without a read share one: the same numbers.

    Prompts are placed pass by pass, so the states of one pass exist beside the batch's, not those of all prompts. Between two
    calls, the last prompt's are kept for its next sample.
    """

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._last: tuple[tuple[int, ...], Prefilled] | None = None

    def __call__(self, requests: Sequence[Request], place: Place) -> None:
        """Calls `place` for each request, in the order of the passes."""
        samples: dict[tuple[int, ...] | int, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            samples[request.prompt_ids if request.read is None else number].append(number)
        if self._last is not None:
            for number in samples.pop(self._last[0], ()):
                place(number, self._last[1])
        together: dict[int, list[list[int]]] = defaultdict(list)
        for numbers in samples.values():
            together[self._passes.columns(len(requests[numbers[0]].prompt_ids))].append(numbers)
        for prompts in together.values():
            for start in range(0, len(prompts), self._passes.width):
                self._last = None
                self._pass(requests, prompts[start : start + self._passes.width], place)

    def _pass(self, requests: Sequence[Request], prompts: Sequence[Sequence[int]], place: Place) -> None:
        """Prefills one pass. `prompts` has the numbers of each prompt's requests."""
        first = [requests[numbers[0]] for numbers in prompts]
        result = self._passes.run([each.prompt_ids for each in first], [each.read for each in first], keep=True)
        assert result.cache is not None
        for row, (request, numbers) in enumerate(zip(first, prompts, strict=True)):
            prefilled = Prefilled(result.cache, row, result.paddings[row], result.logits[row], result.receipts[row])
            for number in numbers:
                place(number, prefilled)
            if request.read is None and numbers[-1] == len(requests) - 1 and len(request.prompt_ids) <= KEPT_TOKENS:
                self._last = (request.prompt_ids, prefilled)
