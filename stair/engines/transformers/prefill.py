"""Prefill of prompts, with the auxiliary branch where a request has one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from stair.engines.base import Read, Request
from stair.method import Attachment, Receipt, RowControl

PAD_BLOCK = 32
"""Prompts that are processed together are padded on the left to whole blocks of this many tokens.

How much a prompt is padded depends on its own length alone, and a whole block keeps its sums in the same vector lanes wherever
it lies: so do its numbers.
"""


@dataclass(frozen=True)
class Prefilled:
    """A processed prompt: its states, the logits behind its last token, and what the auxiliary branch did."""

    cache: DynamicCache
    """States of all prompts that were processed together."""
    row: int
    """Which of them this one is."""
    padding: int
    """Columns before its first token."""
    logits: torch.Tensor
    """`[vocabulary]`."""
    receipt: Receipt | None


def padded_length(request: Request) -> int:
    """Columns that a prompt takes when it is processed with others."""
    return -(-len(request.prompt_ids) // PAD_BLOCK) * PAD_BLOCK


@torch.inference_mode()
def prefill(
    model: Any, attachment: Attachment | None, requests: Sequence[Request], width: int, device: torch.device
) -> list[Prefilled]:
    """Processes whole prompts of one `padded_length` in one pass of `width` rows.

    Rows that no request takes are computed too, so that a prompt's arithmetic depends on nothing else. With a width of one
    nothing is padded.

    Returns:
        The processed prompts, in the order of the requests.
    """
    assert 1 <= len(requests) <= width
    columns = padded_length(requests[0]) if width > 1 else len(requests[0].prompt_ids)
    paddings = [columns - len(request.prompt_ids) for request in requests]
    paddings += paddings[:1] * (width - len(requests))
    ids = torch.zeros(width, columns, dtype=torch.long, device=device)
    for row, request in enumerate(requests):
        ids[row, paddings[row] :] = torch.tensor(request.prompt_ids, device=device)
    # A column's position in its row's conversation, negative where it is padding.
    positions = torch.arange(columns, device=device) - torch.tensor(paddings, device=device)[:, None]
    cache = DynamicCache(config=model.config)
    reads = [request.read for request in requests]
    controls = [None if read is None else row_control(read) for read in reads] + [None] * (width - len(requests))
    receipts: Sequence[Receipt | None] = [None] * len(requests)
    controlling: AbstractContextManager[Sequence[Receipt | None]] = nullcontext(receipts)
    if any(reads):
        assert attachment is not None, "a read needs controlled layers"
        controlling = attachment.controlling(controls, positions)
    with controlling as receipts:
        logits = model(
            input_ids=ids,
            attention_mask=_masks(positions, model.dtype) if width > 1 else torch.ones_like(ids),
            position_ids=positions.clamp_min(0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
    for read in reads:
        if read is not None and read.bank is not None:
            read.bank.release()  # the device copy serves this prefill only
    told = [None if read is None else receipt for read, receipt in zip(reads, receipts[: len(reads)], strict=True)]
    return [Prefilled(cache, row, paddings[row], logits[row], told[row]) for row in range(len(requests))]


def _masks(positions: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Causal masks without the padding; a padding column sees itself, because a softmax over nothing has no value."""
    columns = torch.arange(positions.shape[1], device=positions.device)
    real = positions >= 0
    causal = columns[:, None] >= columns
    seen = (causal & real[:, None, :]) | (columns[:, None] == columns)
    additive = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, -torch.inf)
    return {"full_attention": additive[:, None], "linear_attention": real}


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
