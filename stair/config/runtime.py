"""The runtime study: what a bank costs at prefill, in memory and in transfer (section 4.5, appendix C.4)."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from stair.config.field_types import Count, Key, Keys, Natural, Positive, Strict, Text, once

Variant = Literal["fast-serial", "fast-overlapped", "printed-serial", "printed-overlapped"]
"""How the bank is read (the fast path, or the equations as printed) and brought to the device."""


class ReducedSizes(Strict):
    """Sizes of a synthetic study on a CPU."""

    divisor: Positive = 32
    histories: Count = 2
    tokens: Positive = 16


class Synthetic(Strict):
    """Random weights at the published shapes, and histories of random tokens."""

    median_entries: Positive
    most_entries: Positive
    prompt_tokens: Positive
    question_tokens: Positive
    on_cpu: ReducedSizes = Field(default_factory=ReducedSizes)

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        if self.question_tokens > self.prompt_tokens:
            raise ValueError(
                f"question_tokens is {self.question_tokens}, more than the {self.prompt_tokens} prompt_tokens; "
                "the question is the end of the prompt"
            )
        if not self.median_entries <= self.most_entries < 2 * self.median_entries:
            raise ValueError(
                f"most_entries is {self.most_entries}; expected from median_entries ({self.median_entries}) to "
                "less than twice as many"
            )
        return self


class Growth(Strict):
    """A bank that grows by a segment a turn."""

    turns: Count
    entries: Positive


class Runtime(Strict):
    """What is timed, and how often."""

    models: Keys = Field(min_length=1)
    benchmark: Key
    condition: Key = "native"
    controller: Key = "stair"
    seed: Text = "runtime"
    histories: Count = 16
    longer_than: Natural = 32_768
    prefixes: Annotated[tuple[Positive, ...], Field(strict=False)] | Literal["quartiles"] = (2048, 8192, 32_768)
    tokens: Positive = 256
    warmups: int = Field(1, ge=0, le=100_000)
    repetitions: Count = 3
    variants: Annotated[tuple[Variant, ...], Field(strict=False, min_length=1), AfterValidator(once)] = (
        "fast-serial",
        "fast-overlapped",
        "printed-serial",
    )
    curve: Annotated[tuple[Positive, ...], Field(strict=False)] = ()
    growth: Growth | None = None
    synthetic: Synthetic | None = None

    @model_validator(mode="after")
    def _lists_ascend(self) -> Self:
        for name in ("prefixes", "curve"):
            lengths = getattr(self, name)
            if lengths != "quartiles" and any(later <= earlier for earlier, later in pairwise(lengths)):
                raise ValueError(f"{name} must ascend without repeats, not {list(lengths)}")
        return self


VARIANTS: tuple[Variant, ...] = get_args(Variant)
