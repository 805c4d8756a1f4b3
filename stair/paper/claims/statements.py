"""The paper's claims as `claims.yaml` states them, and the paper's effects of those about response rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, TypeAdapter

from stair.config.field_types import Key, Keys, Positive, Strict, Text, Texts
from stair.statistics.intervals import Interval

STATEMENTS = Path(__file__).with_name("claims.yaml")

Span = Literal["T2", "T3", "T4", "T2-T4"]
Metric = Literal["average", "pass"]


class Compare(Strict):
    """Two conditions of each model on one benchmark, paired by problem; or such a gain against other gains."""

    kind: Literal["compare"]
    models: Keys = Field(min_length=1)
    models_less: Keys = Field((), description="Models whose gains are subtracted; without, scores are compared.")
    benchmark: Key
    benchmarks_less: Keys = Field((), description="Benchmarks whose gains of the same model are subtracted.")
    greater: Key
    less: Key
    spans: Annotated[tuple[Span, ...], Field(strict=False)]
    metrics: Annotated[tuple[Metric, ...], Field(strict=False)] = ("average",)


class Pooled(Strict):
    """Two conditions over T2-T4, pooled over models and mathematical benchmarks, by the correctness of T1."""

    kind: Literal["pooled"]
    greater: Key
    less: Key
    groups: Texts


class ChangedAnswers(Strict):
    """Both directions of changed answers against Vanilla, at every later turn."""

    kind: Literal["transitions"]
    model: Key
    benchmark: Key


class Shared(Strict):
    """A condition against others in the study with a shared T1 history."""

    kind: Literal["shared"]
    model: Key = "qwen3.5-4b"
    benchmark: Key = "aime2025"
    greater: Key
    less: Keys


class Bound(Strict):
    """A number of the configuration's section `claims`."""

    bound: Key


class Values(Strict):
    """A reported number against another one, or a plain number."""

    kind: Literal["values"]
    model: Key = "qwen3-4b-instruct"
    greater: Text | float | Bound
    less: Text | float | Bound
    times: float | Bound = Field(1.0, description="Multiplies `less`.")
    over: dict[str, Annotated[tuple[int, ...], Field(strict=False)]] = Field(
        default_factory=dict, description="Values of a name in braces; one test for each."
    )
    groups: Texts = ("",)

    def sides(self) -> Iterator[tuple[str | float | Bound, ...]]:
        """`greater` and `less` of each test, with the values of `over` in place of the names in braces."""
        for numbers in product(*self.over.values()):
            filled = dict(zip(self.over, numbers, strict=True))
            yield tuple(side.format(**filled) if isinstance(side, str) else side for side in (self.greater, self.less))


Test = Compare | Pooled | ChangedAnswers | Shared | Values


class Claim(Strict):
    """A claim, the paper's words and its tests, all of which must hold."""

    number: Positive
    title: Text
    section: Text
    quotes: Texts = Field(min_length=1)
    tests: Annotated[
        tuple[Annotated[Test, Field(discriminator="kind")], ...],
        Field(strict=False, min_length=1),
    ]


def read_claims() -> list[Claim]:
    """The claims of `claims.yaml`, in their order."""
    return TypeAdapter(list[Claim]).validate_python(yaml.safe_load(STATEMENTS.read_text(encoding="utf-8")))


PAPER_EFFECTS = Path(__file__).with_name("paper_effects.csv")


@dataclass(frozen=True)
class PaperEffects:
    """A claim's effects on the paper's counts."""

    joint: Interval
    unit: str
    parts: tuple[float, ...]
    """In the order of `parts_of`."""


def paper_effects() -> dict[int, PaperEffects]:
    """By the claim's number. The estimates follow from the paper's printed counts.

    The paper prints no joint interval. `benchmarks/claims.py` estimates one from simulated rows (docs/comparison.md).
    """
    with open(PAPER_EFFECTS, encoding="utf-8", newline="") as file:
        return {
            int(row["claim"]): PaperEffects(
                Interval(*(float(row[name]) for name in ("effect", "low", "high"))),
                row["unit"],
                tuple(map(float, row["parts"].split())),
            )
            for row in csv.DictReader(file)
        }
