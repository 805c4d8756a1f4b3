"""Generation as plainly as it can be written: one response at a time, no cache, the whole sequence anew for every token."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from stair.engines.base import FinishReason, Request
from stair.engines.noise import gumbel
from stair.engines.sampling import token_probabilities
from stair.method import Attachment

States = list[tuple[Tensor, Tensor]]
"""Of each layer: keys before RoPE and values, `[tokens, kv_heads, head_dim]`."""


@torch.no_grad()
def forward(model: Any, request: Request, ids: list[int], layers: tuple[int, ...]) -> tuple[Tensor, States]:
    """Logits `[vocabulary]` behind the last token, and the states of all tokens at `layers`."""
    tokens = torch.tensor([ids])
    states: States = []
    attachment = Attachment(model, layers, backend="naive")
    control: Any = nullcontext()
    if request.read is not None:
        control = attachment.controlling([request.read], torch.arange(len(ids))[None])
    with control, attachment.capturing(lambda _, keys, values: states.append((keys[0], values[0]))):
        logits = model(tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits
    return logits[0, -1], states


def respond(
    model: Any, request: Request, layers: tuple[int, ...], *, tokens: int, context: int
) -> tuple[tuple[int, ...], FinishReason, States]:
    """A response, why it ended, and the states of its processed tokens: all but the one drawn last."""
    ids: list[int] = []
    prompt = list(request.prompt_ids)
    while True:
        logits, states = forward(model, request, [*prompt, *ids], layers)
        probabilities = token_probabilities(logits, ids, prompt, request.sampling, tokens)
        noise = gumbel(torch.tensor([request.seed]), torch.tensor([len(ids)]), torch.arange(len(logits))[None])[0]
        ids.append(int((probabilities.log() + noise).argmax()))
        reason: FinishReason | None = None
        if ids[-1] in request.stop_ids:
            reason = "stop"
        elif len(ids) == request.max_new_tokens:
            reason = "length"
        elif len(prompt) + len(ids) == context:
            reason = "context"
        if reason is not None:
            return tuple(ids), reason, [(keys[len(prompt) :], values[len(prompt) :]) for keys, values in states]
