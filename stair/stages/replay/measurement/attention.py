"""Attention masses and reads of a batch of current problems behind one shared prefix, from log-sum-exps.

B problems, H query heads, K key/value heads, T columns of the padded current turns, P positions of the prefix, D channels
of a head. The arithmetic is FP32, FP64 for FP64 input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stair.models.attention import attend


@dataclass(frozen=True)
class Layer:
    """What one attention layer computed for a batch: queries and keys after RoPE, and the gate's logits (Qwen3.5)."""

    q_BHTD: Tensor
    prefix_k_KPD: Tensor
    prefix_v_KPD: Tensor
    k_BKTD: Tensor
    v_BKTD: Tensor
    gate_BTHD: Tensor | None = None


def masses_and_reads(
    layer: Layer, sources: Sequence[Tensor], weights_BT: Tensor, output_projection: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return the masses [B, 4], and the reads [B, 4, hidden] where an output projection is given.

    A category's share of a query's attention follows from the log-sum-exps of the categories; its read is that share of
    the attention over the category alone. Every query of a current turn attends to the whole prefix, so one product serves
    all problems.

    Args:
        layer: the layer's queries, keys and values.
        sources: the prefix's positions of each earlier category.
        weights_BT: the weights of the mean over a problem's body: 1 / |T_x| in the body, zero elsewhere.
        output_projection: W_O.
    """
    heads, head_dim = layer.q_BHTD.shape[1], layer.q_BHTD.shape[3]
    kv_heads = len(layer.prefix_k_KPD)
    folded = layer.q_BHTD.unflatten(1, (kv_heads, -1)).transpose(0, 1)
    by_kv_head = folded.shape[:-1]
    folded = folded.reshape(1, kv_heads, -1, head_dim)
    attended, sums = [], []
    for positions in sources:
        out, lse = attend(folded, layer.prefix_k_KPD[None, :, positions], layer.prefix_v_KPD[None, :, positions])
        attended.append(out.view(*by_kv_head, head_dim).transpose(0, 1).flatten(1, 2))
        sums.append(lse.view(by_kv_head).transpose(0, 1).flatten(1, 2))
    own_k, own_v = (part.repeat_interleave(heads // kv_heads, dim=1) for part in (layer.k_BKTD, layer.v_BKTD))
    out, lse = attend(layer.q_BHTD, own_k, own_v, causal=True)
    attended.append(out)
    sums.append(lse)
    weighted = torch.stack(sums, dim=1).softmax(1) * weights_BT[:, None, None]  # [B, 4, H, T]
    masses = weighted.sum(-1).mean(-1)
    if output_projection is None:
        return masses, None
    if layer.gate_BTHD is not None:  # It differs by token, so it precedes the mean.
        gate = torch.sigmoid(layer.gate_BTHD.to(weighted.dtype)).transpose(1, 2)
        attended = [gate * part for part in attended]
    # [B, H, 1, T] @ [B, H, T, D]
    reads = [(weighted[:, place, :, None] @ part)[:, :, 0].flatten(1) for place, part in enumerate(attended)]
    return masses, torch.stack(reads, dim=1) @ output_projection.to(weighted.dtype).mT
