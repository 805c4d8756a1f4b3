"""The conditions of continuous evaluation, and the models and benchmark of a table and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from stair.config.engines import EngineName
from stair.config.field_types import Key, Keys, Natural, Positive, Shards, Strict, Text, once
from stair.core import TURNS, ConditionName, ReadVariant

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Condition(Strict):
    """A way to answer the benchmark: with which history, with which read."""

    label: str = Field(description="The name in tables and figures.")
    turns: Literal[1, 2, 4] = Field(4, description="Turns of a session; 1: no history; 2: the study with a shared T1.")
    first_turn: Key | None = Field(None, description="The condition whose T1 is reused; null: its own.")
    controller: Key | None = Field(None, description="The controller that reads the bank; null reads none.")
    variant: ReadVariant = Field(
        "differential",
        description="How the bank is read: the reflected read minus the reference read; direct adds the reflected read "
        "alone; zero adds the differential readout times zero.",
    )
    randomised: Literal["reflector", "values"] | None = Field(
        None,
        description="What a test-time seed draws: reflector replaces the trained normals by fixed unit directions; values "
        "permutes the bank's values, by layer, K/V head and answer; keys stay. Null is nothing.",
    )
    seed: Seed | None = Field(None, description="The test-time seed of what is randomised.")
    prefix: Positive | None = Field(
        None, description="The number of the bank's first entries that are readable; null: all."
    )
    family: Key | None = Field(
        None,
        description="The family of conditions that it belongs to: tables average those that differ by their seed alone. "
        "Null is a condition by itself.",
    )
    seeds: tuple[Seed, ...] | None = Field(
        None,
        strict=False,
        exclude=True,
        description="Stands for one condition of each seed, under the key <key>-<seed>, in the family <key>.",
    )
    prefixes: tuple[Positive, ...] | None = Field(
        None,
        strict=False,
        exclude=True,
        description="Stands for one condition of each prefix, under the key <key>-<entries>, in the family <key>.",
    )
    repeats: Key | None = Field(
        None,
        description="The condition that this one repeats: their paired differences are noise, and no response is "
        "reused between them.",
    )
    batch_width: int | None = Field(None, ge=1, le=10_000, description="In place of transformers.batch_width.")
    shards: Shards | None = Field(None, description="Jobs that share this condition, in place of evaluation.shards.")
    models: Keys | None = Field(None, description="The models it is run for; null is all.")
    benchmarks: Keys | None = Field(None, description="The benchmarks it is run on; null is all.")

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

    model: Key = Field(description="The model.")
    benchmark: Key = Field(description="The benchmark.")


class Overview(Strict):
    """Figure overview."""

    models: Keys = Field(min_length=1, description="The models that it shows, a panel each.")


class MissingResponse(Strict):
    """A response of continuous evaluation that no attempt could generate."""

    model: Key = Field(description="The model's key.")
    benchmark: Key = Field(description="The benchmark's key.")
    condition: Key = Field(description="The condition that generates the response.")
    session: Text = Field(description="The session; the shard that failed names it.")
    sample: Natural = Field(description="The trajectory, from 0.")
    turn: int = Field(ge=1, le=TURNS, description="The turn; all later turns of the trajectory are missing with it.")
    reason: Text = Field(description="The error, one line; the tables' notes give it.")


def _named_once(gaps: tuple[MissingResponse, ...]) -> tuple[MissingResponse, ...]:
    return once(gaps, lambda gap: f"{gap.session}, sample {gap.sample} of {gap.model}/{gap.benchmark}/{gap.condition}")


MissingResponses = Annotated[tuple[MissingResponse, ...], Field(strict=False), AfterValidator(_named_once)]


class Evaluation(Strict):
    """Continuous evaluation."""

    samples: int = Field(4, ge=1, le=1000, description="Trajectories of a session.")
    seed: Text = Field("evaluation", description="The study's name; enters every response's seed.")
    engine: EngineName = Field("transformers", description="The engine that generates responses.")
    engine_changes: dict[Key, dict[Key, EngineName]] = Field(
        default_factory=dict, description="By model and benchmark, the engine of all conditions."
    )
    allow_mixed_engines: bool = Field(
        False,
        description="Whether the conditions of a model and benchmark may come from unequal engines, versions, attention paths, "
        "precisions or devices; the tables then say so.",
    )
    shards: Shards = Field(description="How many jobs share one condition. Changes no result.")
    missing: MissingResponses = Field(
        (),
        description="Responses that no attempt could generate: each is left out, by name, with all later turns of its "
        "trajectory, and every score that needs one is not reported. Where a log has one nevertheless, it is used.",
    )
