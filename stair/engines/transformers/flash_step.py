"""FlashAttention2's decoding kernel over a cache of rows of their own lengths.

With rows of several lengths, Transformers uses the training kernel, and the host counts the lengths at every layer. That
waits for the device, and cannot be recorded (`step_graph`). This kernel takes the lengths on the device.
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
    """Attention of one new token a row, as Transformers calls it: `[rows, 1, query_heads, head_dim]`, and no weights.

    `query` is `[rows, query_heads, 1, head_dim]`; `key` and `value` are `[rows, kv_heads, visible, head_dim]`, the new token's
    among them. `attention_mask` `[rows, 1, 1, 1]` int32 says how many positions a row sees.
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
