"""FlashAttention's decoding kernel over a cache of rows of their own lengths.

With rows of several lengths, Transformers uses the training kernel, and the host counts the lengths at every layer. That
waits for the device, and cannot be recorded (`step_graph`). This kernel takes the lengths on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from torch import Tensor
from transformers import AttentionInterface

from stair.models.flash_kernels import PACKAGES


def flash_step(
    package: str,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of one new token a row, as Transformers calls it: `[rows, 1, query_heads, head_dim]`, and no weights.

    `package` is the module with the kernel.
    `query` is `[rows, query_heads, 1, head_dim]`; `key` and `value` are `[rows, kv_heads, visible, head_dim]`, the new token's
    among them. `attention_mask` `[rows, 1, 1, 1]` int32 says how many positions a row sees.
    """
    kernel = import_module(package).flash_attn_with_kvcache
    rows, columns = (states.transpose(1, 2) for states in (key, value))
    lengths = attention_mask.flatten()
    return kernel(query.transpose(1, 2), rows, columns, cache_seqlens=lengths, softmax_scale=scaling), None


@contextmanager
def stepping(config: Any) -> Iterator[None]:
    """A model with FlashAttention takes `flash_step` inside; others take what they are configured with."""
    configured = config._attn_implementation
    if configured in PACKAGES:
        config._attn_implementation = f"{configured}_step"
    try:
        yield
    finally:
        config._attn_implementation = configured


for _name, (_module, _) in PACKAGES.items():
    AttentionInterface.register(f"{_name}_step", partial(flash_step, _module))
