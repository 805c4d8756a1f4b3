"""Training responses and the orders of sessions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stair.config.base import Positive, Strict, Text
from stair.config.engines import EngineName


class Rollouts(Strict):
    """Training responses."""

    samples: Literal[4] = Field(4, description="Responses to a source record: one for each of the four turn columns.")
    engine: EngineName = Field("transformers", description="The engine that generates them; a model can have another.")
    shards: Positive = Field(description="How many jobs share a model's rollouts. Changes no result.")
    seed: Text = Field("rollouts", description="Enters every sample's seed.")


class Sessions(Strict):
    """Four-turn sessions for training and the evaluation's schedule."""

    seed: Text = Field("sessions", description="Names every order that is drawn.")
