"""Attention masses (appendix A.2) and historical reads (appendix A.6) of one prompt as written: the measure of `attention`.

H query heads, K key/value heads, S positions of the whole prompt, D channels of a head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stair.stages.replay.measurement.categories import CATEGORIES


def probabilities(q_HSD: Tensor, k_KSD: Tensor) -> Tensor:
    """Return alpha_{h,t,j} [H, S, S], normalised over the causally visible positions."""
    heads, positions, head_dim = q_HSD.shape
    keys = k_KSD.repeat_interleave(heads // k_KSD.shape[0], dim=0)
    logits = q_HSD @ keys.mT * head_dim**-0.5
    later = torch.ones(positions, positions, dtype=torch.bool, device=q_HSD.device).triu(1)
    return torch.softmax(logits.masked_fill(later, -torch.inf), dim=-1)


def masses(alpha_HSS: Tensor, categories: Sequence[int], body: tuple[int, int]) -> Tensor:
    """Return A^c of each category (Eq. 12), [4].

    `categories` holds each position's index in CATEGORIES; `body` is the current user body (end exclusive).
    """
    total = alpha_HSS.new_zeros(len(CATEGORIES))
    for category in range(len(CATEGORIES)):
        for position, own in enumerate(categories):
            if own == category:
                total[category] += alpha_HSS[:, body[0] : body[1], position].sum()
    return total / (alpha_HSS.shape[0] * (body[1] - body[0]))


def reads(
    alpha_HSS: Tensor,
    v_KSD: Tensor,
    output_projection: Tensor,
    categories: Sequence[int],
    body: tuple[int, int],
    gate_SHD: Tensor | None = None,
) -> Tensor:
    """Return r^c of each category (Eq. 17), [4, hidden]; `categories` and `body` as `masses`.

    The gate multiplies each token's read before W_O (Qwen3.5); `gate_SHD` holds its logits.
    """
    heads = alpha_HSS.shape[0]
    values = v_KSD.repeat_interleave(heads // v_KSD.shape[0], dim=0)
    of_positions = torch.tensor(categories, device=v_KSD.device)
    by_category = []
    for category in range(len(CATEGORIES)):
        total = torch.zeros_like(output_projection[:, 0])
        for token in range(*body):
            sources = of_positions == category
            parts = [alpha_HSS[head, token, sources] @ values[head, sources] for head in range(heads)]
            if gate_SHD is not None:
                parts = [torch.sigmoid(gate_SHD[token, head]) * part for head, part in enumerate(parts)]
            total = total + output_projection @ torch.cat(parts)
        by_category.append(total / (body[1] - body[0]))
    return torch.stack(by_category)
