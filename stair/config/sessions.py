"""Training responses and the orders of sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stair.config.engines import EngineName
from stair.config.field_types import Key, Positive, Strict, Text


class MissingRollout(Strict):
    """A training response that no attempt could generate."""

    model: Key = Field(description="The model's key.")
    record: Text = Field(description="The source record; the shard that failed names it.")
    sample: int = Field(ge=0, le=3, description="The sample, from 0.")
    reason: Text = Field(description="The error, one line.")


class Rollouts(Strict):
    """Training responses."""

    samples: Literal[4] = Field(4, description="Responses to a source record: one for each of the four turn columns.")
    engine: EngineName = Field("transformers", description="The engine that generates them; a model can have another.")
    shards: Positive = Field(description="How many jobs share a model's rollouts. Changes no result.")
    seed: Text = Field("rollouts", description="Enters every sample's seed.")
    missing: Annotated[tuple[MissingRollout, ...], Field(strict=False)] = Field(
        (),
        description="Training responses that no attempt could generate: each is left out, by name, and its record is in no "
        "session. Where a log has one nevertheless, it is used.",
    )


class Sessions(Strict):
    """Four-turn sessions for training and the evaluation's schedule."""

    seed: Text = Field("sessions", description="Names every order that is drawn.")
