"""Exact-token replay: the states of a saved response from one pass over its tokens (appendix B.1)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from stair.engines.base import Replay
from stair.engines.transformers.prefill import row_control
from stair.method import Attachment, Segment, capture_length


def replay_states(model: Any, attachment: Attachment, replay: Replay, device: torch.device, context: int) -> Segment:
    """Feeds prompt and response through the frozen backbone and keeps what decoding would have kept.

    A response that was generated with the auxiliary branch is replayed with it, over the same control span.
    """
    start = len(replay.prompt_ids)
    processed = max(len(replay.response_ids) - 1, 0)
    ids = torch.tensor([[*replay.prompt_ids, *replay.response_ids[:processed]]], dtype=torch.long, device=device)
    positions = torch.arange(ids.shape[1], device=device)[None]
    length = capture_length(
        replay.response_ids,
        processed=processed,
        end_of_thinking=replay.capture.end_of_thinking,
        stop_ids=replay.stop_ids,
    )
    if len(replay.prompt_ids) >= context:  # nothing was generated, and nothing can be processed
        ids, positions = ids[:, :1], positions[:, :1]
    states: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def sink(index: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        # [1, tokens, kv_heads, head_dim] to [kv_heads, captured tokens, head_dim]
        kept = (keys[0, start : start + length], values[0, start : start + length])
        states[index] = (kept[0].transpose(0, 1).cpu(), kept[1].transpose(0, 1).cpu())

    controlling = attachment.controlling([row_control(replay.read)], positions) if replay.read else nullcontext()
    with controlling, attachment.capturing(sink):
        model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            position_ids=positions,
            use_cache=False,
            logits_to_keep=1,
        )
    order = range(len(replay.capture.layers))
    keys, values = (torch.stack([states[index][part] for index in order]).contiguous() for part in (0, 1))
    return Segment(replay.capture.layers, keys, values)
