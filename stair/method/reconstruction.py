"""Capture by exact-token replay, and how far it lies from capture while decoding (appendix B.1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from stair.method.attachment import Attachment
from stair.method.read import Receipt, RowControl
from stair.method.segment import Segment


@torch.no_grad()
def replay(
    model: nn.Module,
    attachment: Attachment,
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    *,
    control: RowControl | None = None,
) -> tuple[Segment, Receipt]:
    """Feed a prompt and response tokens through the model again; return the response tokens' states and the receipt.

    `response_ids` are the tokens whose states are wanted (see `capture_length`). A turn that was generated under control is
    replayed with the same control: its controller, its span, and the bank as it was before the turn. So a session is
    replayed turn by turn, each turn's segment appended before the next.
    """
    ids = torch.tensor([[*prompt_ids, *response_ids]], device=next(model.parameters()).device)
    start = len(prompt_ids)
    # By the attachment's order of layers, which need not be the order in which the model runs them.
    states: dict[int, tuple[Tensor, Tensor]] = {}

    def keep(index: int, keys: Tensor, values: Tensor) -> None:
        states[index] = (keys[0, start:].transpose(0, 1).cpu(), values[0, start:].transpose(0, 1).cpu())

    with attachment.controlling([control], torch.arange(ids.shape[1])[None]) as receipts, attachment.capturing(keep):
        model(ids, attention_mask=torch.ones_like(ids), use_cache=False, logits_to_keep=1)
    order = range(len(attachment.layers))
    keys, values = (torch.stack([states[index][part] for index in order]) for part in (0, 1))
    return Segment(attachment.layers, keys, values), receipts[0]


def deviation(replayed: Segment, expected: Segment) -> float:
    """Return the largest relative Frobenius distance, over layers, of keys and of values from those expected.

    Raises ValueError when the segments do not hold the same tokens of the same layers.
    """
    if (replayed.layers, replayed.keys.shape) != (expected.layers, expected.keys.shape):
        raise ValueError(
            f"segments of layers {replayed.layers}, {list(replayed.keys.shape)} and {expected.layers}, "
            f"{list(expected.keys.shape)} cannot be compared"
        )
    distances = [
        (one.double() - other.double()).norm() / other.double().norm()
        for pair in ((replayed.keys, expected.keys), (replayed.values, expected.values))
        for one, other in zip(*pair, strict=True)
    ]
    return float(torch.stack(distances).max()) if replayed.tokens else 0.0
