"""Prefill of one prompt, with the auxiliary branch where the request has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from stair.engines.base import Read, Request
from stair.method import Attachment, Receipt, RowControl


@dataclass(frozen=True)
class Prefilled:
    """A processed prompt: its cache, the logits behind its last token, and what the auxiliary branch did."""

    cache: DynamicCache
    logits: torch.Tensor
    """`[vocabulary]`."""
    receipt: Receipt | None


@torch.inference_mode()
def prefill(model: Any, attachment: Attachment | None, request: Request, device: torch.device) -> Prefilled:
    """Processes a whole prompt alone, so that its arithmetic depends on nothing else."""
    length = len(request.prompt_ids)
    ids = torch.tensor([request.prompt_ids], dtype=torch.long, device=device)
    positions = torch.arange(length, device=device)[None]
    cache = DynamicCache(config=model.config)

    def forward() -> torch.Tensor:
        output = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[0, -1]

    if request.read is None:
        return Prefilled(cache, forward(), None)
    assert attachment is not None, "a read needs controlled layers"
    with attachment.controlling([row_control(request.read)], positions) as receipts:
        logits = forward()
    if request.read.bank is not None:
        request.read.bank.release()  # the device copy serves this prefill only
    return Prefilled(cache, logits, receipts[0])


def row_control(read: Read) -> RowControl:
    """A request's read as the method's hooks take it."""
    return RowControl(
        controller=read.controller,
        bank=read.bank,
        span=read.span,
        variant=read.variant,
        limit=read.limit,
        smoothing=read.smoothing,
    )
