"""The runtime study: what a bank costs at prefill, in memory and in transfer (section 4.5, appendix C.4)."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, model_validator

from stair.config.field_types import Count, Key, Keys, Natural, Positive, Strict, Text


class Synthetic(Strict):
    """Random weights at the published shapes, and histories of random tokens."""

    entries: Positive
    prompt_tokens: Positive
    question_tokens: Positive

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        if self.question_tokens > self.prompt_tokens:
            raise ValueError(
                f"question_tokens is {self.question_tokens}, more than the {self.prompt_tokens} prompt_tokens; "
                "the question is the end of the prompt"
            )
        return self


class Runtime(Strict):
    """What is timed, and how often."""

    models: Keys = Field(min_length=1)
    benchmark: Key
    condition: Key = "native"
    controller: Key = "stair"
    seed: Text = "runtime"
    histories: Count = 16
    longer_than: Natural = 32_768
    prefixes: Annotated[tuple[Positive, ...], Field(strict=False)] = (2048, 8192, 32_768)
    tokens: Positive = 256
    warmups: int = Field(1, ge=0, le=100_000)
    repetitions: Count = 3
    synthetic: Synthetic | None = None

    @model_validator(mode="after")
    def _prefixes_ascend(self) -> Self:
        if any(later <= earlier for earlier, later in pairwise(self.prefixes)):
            raise ValueError(f"prefixes must ascend without repeats, not {list(self.prefixes)}")
        return self
