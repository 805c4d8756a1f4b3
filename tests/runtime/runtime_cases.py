"""What the tests of the runtime study share: a measurer on a small real model, and a history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel

from stair.core import ReadSpecification
from stair.engines.base import SamplingSettings
from stair.method import Reflector
from stair.stages.runtime.measure import Measurer, Method, TimedHistory
from stair.stages.runtime.shapes import random_history
from tests.conftest import LAYERS, TOKENS

METHOD = Method(
    sampling=SamplingSettings(),
    vocabulary=TOKENS,
    stop_ids=(),
    end_of_thinking=None,
    chunk=8192,
    block=32,
    read=ReadSpecification(),
    prefixes=(10, 64),
    tokens=5,
    warmups=1,
    repetitions=2,
)


def history(entries: int = 24) -> TimedHistory:
    """A history of random tokens."""
    return random_history("s-0", entries, prompt=20, question=7, vocabulary=TOKENS, seed="tests")


def measurer(model: PreTrainedModel, **changes: Any) -> Measurer:
    """A measurer on a small model, with a drawn reflector."""
    config = model.config
    controller = Reflector.draw(LAYERS, config.num_attention_heads, config.head_dim, seed=0)
    return Measurer(model, controller, replace(METHOD, **changes))
