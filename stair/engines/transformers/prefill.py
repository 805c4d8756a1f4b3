"""Prefill of prompts, with the auxiliary branch where a request has one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers.cache_utils import DynamicCache

from stair.engines.base import Request
from stair.engines.transformers.passes import Passes
from stair.method import Receipt


@dataclass(frozen=True)
class Prefilled:
    """A processed prompt (or a response under way): its states, the logits behind its last token, what its read did."""

    cache: DynamicCache
    """States of all sequences that were processed together."""
    row: int
    """Which of them this one is."""
    padding: int
    """Columns before its first token."""
    logits: torch.Tensor
    """`[vocabulary]`."""
    receipt: Receipt | None


class Prefill:
    """Prefills prompts. Samples of one prompt without a read share one: the same numbers."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._shared: dict[tuple[int, ...], Prefilled] = {}

    def __call__(self, requests: Sequence[Request]) -> list[Prefilled]:
        """The processed prompts, in the order of the requests."""
        done: dict[int, Prefilled] = {}
        together: dict[int, list[int]] = defaultdict(list)
        first: dict[tuple[int, ...], int] = {}
        for number, request in enumerate(requests):
            if request.read is None and (known := self._shared.get(request.prompt_ids)) is not None:
                done[number] = known
            elif request.read is not None or first.setdefault(request.prompt_ids, number) == number:
                together[self._passes.columns(len(request.prompt_ids))].append(number)
        for numbers in together.values():
            for start in range(0, len(numbers), self._passes.width):
                part = numbers[start : start + self._passes.width]
                done.update(zip(part, self._prefill([requests[number] for number in part]), strict=True))
        shared = {
            request.prompt_ids: done[first[request.prompt_ids]] for request in requests if request.prompt_ids in first
        }
        self._shared = shared or self._shared
        return [done[n] if n in done else shared[request.prompt_ids] for n, request in enumerate(requests)]

    def _prefill(self, requests: Sequence[Request]) -> list[Prefilled]:
        prefill = self._passes.run(
            [request.prompt_ids for request in requests], [request.read for request in requests], keep=True
        )
        assert prefill.cache is not None
        return [
            Prefilled(prefill.cache, row, prefill.paddings[row], prefill.logits[row], prefill.receipts[row])
            for row in range(len(requests))
        ]
