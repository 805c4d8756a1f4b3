"""What the tests of the runtime study share: a measurer on a small real model, histories, and lines of its table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from stair.core import ReadSpecification
from stair.engines.base import SamplingSettings
from stair.method import Reflector
from stair.stages.runtime.measure import Measurer, Method
from stair.stages.runtime.repetitions import Line
from stair.stages.runtime.study_units import History
from tests.conftest import LAYERS, TOKENS

METHOD = Method(
    sampling=SamplingSettings(),
    tokens=TOKENS,
    stop_ids=(),
    end_of_thinking=None,
    chunk=8192,
    block=32,
    decode=5,
    read=ReadSpecification(),
    warmups=1,
    repetitions=2,
)


def history(entries: int = 24, prompt: int = 20, question: int = 7, name: str = "s-0") -> History:
    """A history of random tokens."""
    drawn = np.random.default_rng(entries)
    first, response, ids = (tuple(drawn.integers(TOKENS, size=n).tolist()) for n in (9, entries + 1, prompt))
    return History(name, first, response, ids, (prompt - question, prompt), entries)


def measurer(model: PreTrainedModel, **changes: Any) -> Measurer:
    """A measurer on a small model, with a drawn reflector."""
    config = model.config
    controller = Reflector.draw(LAYERS, config.num_attention_heads, config.head_dim, seed=0)
    return Measurer(model, controller, replace(METHOD, **changes))


LINE = Line(
    part="row", model="qwen3.5-4b", benchmark="math500", history="h", row="full", variant="fast-serial", repetition=1,
    entries=1, bank_entries=1, prompt_tokens=20, controlled_tokens=7, readout_norm=1.0, tokens=256, kv_bytes=0,
    transfer_s=0.0, prefill_s=0.0, decode_s=0.0, total_s=0.0, construction_s=None, peak_bytes=0, memory="allocated",
    shape="", engine="transformers", attention="sdpa", dtype="bfloat16", device="GPU", gap="",
)  # fmt: skip
"""A measured line, from which tests make theirs."""
