"""The conditions of continuous evaluation, and where tables and figures look."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from stair.config.base import Key, Keys, Positive, Strict, Text
from stair.config.engines import EngineName
from stair.core import TURNS


class Condition(Strict):
    """A way to answer the benchmark: with which history, with which read."""

    label: str = Field(description="The name in tables and figures.")
    turns: Literal[1, 4] = Field(4, description="Turns of a session; 1 answers every problem without history.")
    first_turn: Key | None = Field(
        None, description="The condition whose saved T1 responses are reused; null generates its own."
    )
    controller: Key | None = Field(None, description="The controller that reads the bank; null reads none.")
    variant: Literal["differential", "zero"] = Field(
        "differential", description="How the bank is read; zero reads it and adds the readout times zero."
    )
    repeats: Key | None = Field(
        None,
        description="The condition that this one asks again: their paired differences are noise, and no response is "
        "taken over between them.",
    )
    batch_width: Positive | None = Field(
        None, description="Rows of this condition's decoding batches, in place of transformers.batch_width."
    )
    shards: Positive | None = Field(None, description="Jobs that share this condition, in place of evaluation.shards.")
    models: Keys | None = Field(None, description="The models it is run for; null is all.")
    benchmarks: Keys | None = Field(None, description="The benchmarks it is run on; null is all.")

    @property
    def layout(self) -> dict[str, Any]:
        """What a repetition changes on purpose, and should change nothing: part of its identity, and of no other condition's."""
        if self.repeats is None:
            return {}
        return self.model_dump(include={"repeats", "batch_width", "shards"}, exclude_none=True)


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
    sample: int = Field(ge=0, description="The trajectory, from 0.")
    turn: int = Field(ge=1, le=TURNS, description="The turn; all later turns of the trajectory are missing with it.")
    reason: Text = Field(description="The error, one line; the tables' notes give it.")


class Evaluation(Strict):
    """Continuous evaluation."""

    samples: Positive = Field(4, description="Trajectories of a session.")
    seed: Text = Field("evaluation", description="The study's name; enters every response's seed.")
    engine: EngineName = Field("transformers", description="The engine that generates responses.")
    engine_changes: dict[Key, dict[Key, EngineName]] = Field(
        default_factory=dict,
        description="By model and benchmark: the engine of that whole comparison, all conditions, in place of `engine`.",
    )
    allow_mixed_engines: bool = Field(
        False,
        description="Whether the conditions of a model and benchmark may come from unequal engines, versions, attention paths, "
        "precisions or devices; the tables then say so.",
    )
    shards: Positive = Field(description="How many jobs share one condition. Changes no result.")
    missing: Annotated[tuple[MissingResponse, ...], Field(strict=False)] = Field(
        (),
        description="Responses that no attempt could generate: each is left out, by name, with all later turns of its "
        "trajectory, and every score that needs one is not reported. Where a log has one nevertheless, it is used.",
    )
