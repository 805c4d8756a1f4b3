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

    divisor: Positive = Field(32, description="Divides the lengths of banks and prompts, and the prefixes.")
    histories: Count = Field(2, description="Histories.")
    tokens: Positive = Field(16, description="Decoded tokens.")


class Synthetic(Strict):
    """Random weights at the published shapes, and histories of random tokens."""

    median_entries: Positive = Field(description="Median length of the full banks, in entries.")
    most_entries: Positive = Field(description="Length of the longest bank; lengths are even around the median.")
    prompt_tokens: Positive = Field(description="Tokens of the visible T2 prompt.")
    question_tokens: Positive = Field(description="Tokens of its control span, the last ones.")
    on_cpu: ReducedSizes = Field(default_factory=ReducedSizes, description="The sizes on a CPU.")

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

    turns: Count = Field(description="Turns.")
    entries: Positive = Field(description="Entries that each turn adds.")


class Runtime(Strict):
    """What is timed, and how often."""

    models: Keys = Field(min_length=1, description="The models that are measured.")
    benchmark: Key = Field(description="The benchmark whose sessions give histories and current problems.")
    condition: Key = Field("native", description="The condition whose saved T1 turns are the histories.")
    controller: Key = Field("stair", description="The controller that reads the bank; its kind is stair.")
    seed: Text = Field("runtime", description="Names the order of histories, from which the first ones are measured.")
    histories: Count = Field(16, description="Histories.")
    longer_than: Natural = Field(32_768, description="Entries that a history's bank must exceed.")
    prefixes: Annotated[tuple[Positive, ...], Field(strict=False)] | Literal["quartiles"] = Field(
        (2048, 8192, 32_768),
        description="Lengths of the bank prefixes, a row each; `quartiles` takes those of the measured banks.",
    )
    tokens: Positive = Field(256, description="Tokens that every measurement decodes; end tokens are ignored.")
    warmups: int = Field(1, ge=0, le=100_000, description="Repetitions before the timed ones.")
    repetitions: Count = Field(3, description="Timed repetitions of each history and row.")
    variants: Annotated[tuple[Variant, ...], Field(strict=False, min_length=1), AfterValidator(once)] = Field(
        ("fast-serial", "fast-overlapped", "printed-serial"),
        description="Reads and transfers; tables compare the first with the paper.",
    )
    curve: Annotated[tuple[Positive, ...], Field(strict=False)] = Field(
        (), description="Lengths of the random banks of figure bank_cost."
    )
    growth: Growth | None = Field(None, description="Turns of random states that fill a bank; null measures none.")
    synthetic: Synthetic | None = Field(None, description="Random weights and tokens; null: saved histories.")

    @model_validator(mode="after")
    def _lists_ascend(self) -> Self:
        for name in ("prefixes", "curve"):
            lengths = getattr(self, name)
            if lengths != "quartiles" and any(later <= earlier for earlier, later in pairwise(lengths)):
                raise ValueError(f"{name} must ascend without repeats, not {list(lengths)}")
        return self


VARIANTS: tuple[Variant, ...] = get_args(Variant)
