"""FlashAttention2 over a cache of rows of their own lengths: its kernel for decoding.

Transformers hands rows of several lengths to FlashAttention2's kernel for training, and lets the host count them at every layer.
That waits for the device, and cannot be recorded (`step_graph`). This kernel takes the lengths on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import AttentionInterface

NAME = "flash_attention_2_step"


def flash_step(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of one new token a row, as Transformers calls it.

    Args:
        query: `[rows, query_heads, 1, head_dim]`.
        key, value: `[rows, kv_heads, visible, head_dim]`, the new token's among them.
        attention_mask: `[rows, 1, 1, 1]` int32, how many positions a row sees.

    Returns:
        `[rows, 1, query_heads, head_dim]`, and no weights.
    """
    from flash_attn import flash_attn_with_kvcache

    rows, columns = (states.transpose(1, 2) for states in (key, value))
    lengths = attention_mask.flatten()
    out = flash_attn_with_kvcache(query.transpose(1, 2), rows, columns, cache_seqlens=lengths, softmax_scale=scaling)
    return out, None


@contextmanager
def stepping(config: Any) -> Iterator[None]:
    """A model with FlashAttention2 takes `flash_step` inside; others take what they are configured with."""
    configured = config._attn_implementation
    if configured == "flash_attention_2":
        config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = configured


AttentionInterface.register(NAME, flash_step)
