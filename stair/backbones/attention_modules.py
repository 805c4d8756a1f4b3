"""The modules of an attention layer whose outputs are its queries and keys before RoPE."""

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
