"""Reconstruction of bank states from saved tokens (the exact-token replay of appendix C.4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from stair.method.attachment import Attachment
from stair.method.read import Read, Receipt
from stair.method.segment import Segment


@torch.no_grad()
def reconstruct(
    model: nn.Module,
    attachment: Attachment,
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    *,
    read: Read | None = None,
) -> tuple[Segment, Receipt]:
    """Process a prompt and response tokens again; return the response tokens' states and the receipt.

    `response_ids` are the tokens whose states are wanted (see `capture_length`). Pass the read that the turn was generated
    with, its bank as it was before the turn. So a session is reconstructed turn by turn, and each turn's segment is
    appended before the next turn.
    """
    ids = torch.tensor([[*prompt_ids, *response_ids]], device=next(model.parameters()).device)
    start = len(prompt_ids)
    # By the attachment's order of layers, which need not be the order in which the model runs them.
    states: dict[int, tuple[Tensor, Tensor]] = {}

    def keep(index: int, keys: Tensor, values: Tensor) -> None:
        states[index] = (keys[0, start:].transpose(0, 1), values[0, start:].transpose(0, 1))

    with attachment.controlling([read], torch.arange(ids.shape[1])[None]) as receipts, attachment.capturing(keep):
        model(ids, attention_mask=torch.ones_like(ids), use_cache=False, logits_to_keep=1)
    # To the host at the end: a copy between the layers would wait for the device.
    in_order = [(states[index][0].cpu(), states[index][1].cpu()) for index in range(len(attachment.layers))]
    return Segment.of_layers(attachment.layers, in_order), receipts[0]
