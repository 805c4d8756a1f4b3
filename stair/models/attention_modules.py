"""The modules of an attention layer whose outputs are its queries and keys before RoPE, and its gate's logits."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def query_source(attention: Any) -> Any:
    """Return the normalisation of queries, or their projection where the architecture has no normalisation."""
    return getattr(attention, "q_norm", attention.q_proj)


def key_source(attention: Any) -> Any:
    """Return the normalisation of keys, or their projection where the architecture has no normalisation."""
    return getattr(attention, "k_norm", attention.k_proj)


def per_head(output: Tensor, head_dim: int) -> Tensor:
    """Return the output [batch, tokens, ...] of such a module as [batch, tokens, heads, head_dim]."""
    return output.view(*output.shape[:2], -1, head_dim)


def gate_logits(projected: Tensor, head_dim: int) -> Tensor:
    """Return the logits of the output gate, [..., heads, head_dim], from the query projection of a gated architecture.

    The projection's output is [..., heads * 2 * head_dim]: each head has its query first, then its gate.
    """
    return projected.unflatten(-1, (-1, 2 * head_dim))[..., head_dim:]
