"""The conditions of continuous evaluation, and the models and benchmark of a table and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from stair.config.engines import EngineName
from stair.config.field_types import Key, Keys, Positive, Shards, Strict, Text
from stair.core import ConditionName, ReadVariant

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Condition(Strict):
    """A way to answer the benchmark: with which history, with which read."""

    label: str
    turns: Literal[1, 2, 4] = 4
    first_turn: Key | None = None
    controller: Key | None = None
    variant: ReadVariant = "differential"
    randomised: Literal["reflector", "values"] | None = None
    seed: Seed | None = None
    prefix: Positive | None = None
    family: Key | None = None
    seeds: tuple[Seed, ...] | None = Field(None, strict=False, exclude=True)
    prefixes: tuple[Positive, ...] | None = Field(None, strict=False, exclude=True)
    repeats: Key | None = None
    batch_width: int | None = Field(None, ge=1, le=10_000)
    shards: Shards | None = None
    models: Keys | None = None
    benchmarks: Keys | None = None

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if (self.randomised is None) != (self.seed is None):
            raise ValueError("randomised needs a seed, and seed needs `randomised`")
        if self.turns == 1 and (self.controller is not None or self.first_turn is not None):
            raise ValueError("it has one turn, so it can have no controller and reuse no first turn")
        return self

    def name(self, key: str) -> ConditionName:
        return ConditionName(key) if self.family is None else ConditionName(self.family, self.seed, self.prefix)

    @property
    def intervention(self) -> dict[str, Any]:
        """What it changes in a trained read; empty for most conditions."""
        return self.model_dump(include={"randomised", "seed", "prefix"}, exclude_none=True)

    @property
    def layout(self) -> dict[str, Any]:
        """What a repetition changes on purpose without an effect on tokens: part of its identity alone."""
        if self.repeats is None:
            return {}
        return self.model_dump(include={"repeats", "batch_width", "shards"}, exclude_none=True)


def expanded(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions as plain values, with one entry for each member of a family given by `seeds` or `prefixes`.

    Raises:
        ValueError: a family has both, its list is not one of distinct whole numbers, or a member's key exists twice.
    """
    members: dict[str, Any] = {}
    for key, entry in conditions.items():
        lists = [name for name in ("seeds", "prefixes") if isinstance(entry, Mapping) and entry.get(name) is not None]
        if len(lists) == 2:
            raise ValueError(f"conditions.{key} is given by seeds and by prefixes; give one of the two")
        if lists:
            _check_list(f"conditions.{key}.{lists[0]}", entry[lists[0]])
        for member, values in _members(key, entry, lists[0]) if lists else [(key, entry)]:
            if member in members:
                raise ValueError(
                    f"conditions.{member} stands twice, by itself and among the members of a family; rename the first"
                )
            members[member] = values
    return members


def _check_list(where: str, numbers: Any) -> None:
    if not isinstance(numbers, list | tuple) or not all(type(number) is int for number in numbers):
        raise ValueError(f"{where} is {numbers!r}; expected a list of whole numbers, such as [1, 2, 3]")
    if not numbers:
        raise ValueError(f"{where} is empty; name a number, or leave the condition out with `select`")
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"{where} lists a number twice: {list(numbers)}; keep one of the two")


def _members(family: str, entry: Mapping[str, Any], by: str) -> Iterator[tuple[str, dict[str, Any]]]:
    single = {"seeds": "seed", "prefixes": "prefix"}[by]
    for number in entry[by]:
        name = ConditionName(family, **{single: number})
        label = f"{entry.get('label', family)} {_shortened(number) if by == 'prefixes' else f'seed {number}'}"
        common = {field: value for field, value in entry.items() if field != by}
        yield name.key, {**common, "family": family, single: number, "label": label}


def _shortened(entries: int) -> str:
    return f"{entries // 1024}K" if entries % 1024 == 0 else str(entries)


class Transitions(Strict):
    """Where answer transitions are counted (table native_accuracy)."""

    model: Key
    benchmark: Key


class Overview(Strict):
    """Figure overview."""

    models: Keys = Field(min_length=1)


class Evaluation(Strict):
    """Continuous evaluation."""

    samples: int = Field(4, ge=1, le=1000)
    seed: Text = "evaluation"
    engine: EngineName = "transformers"
    engine_changes: dict[Key, dict[Key, EngineName]] = Field(default_factory=dict)
    allow_mixed_engines: bool = False
    shards: Shards
