"""Requests to SGLang and its answers, as the tests without a server make them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stair.engines.base import Request, SamplingSettings
from stair.engines.sglang.client import Asker

LAW = SamplingSettings(temperature=1.0, top_p=0.95, top_k=20, presence_penalty=1.5, truncation="joint")
ASKER = Asker(context=100, vocabulary=320, tokens=300)


def request(prompt: int = 10, limit: int = 20, **changes: Any) -> Request:
    base = Request("key", tuple(range(100, 100 + prompt)), LAW, seed=5, max_new_tokens=limit, stop_ids=(0, 1))
    return replace(base, **changes)


def answer(ids: list[int], kind: str, *, prompt: int = 10, **told: Any) -> dict[str, Any]:
    """An answer of the server, as seen."""
    reason = {"stop": {"type": "stop", "matched": ids[-1] if ids else None}, "length": {"type": "length"}}.get(kind)
    meta = {"finish_reason": reason or told.pop("reason"), "prompt_tokens": prompt, "num_retractions": 0, **told}
    return {"output_ids": ids, "meta_info": meta}
