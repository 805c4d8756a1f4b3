"""Attention with its log-sum-exp; SDPA without a mask behind a cached prefix on GPUs; FlashAttention without waits in each layer.

Transformers gives SDPA a mask when there are more keys than queries, and with a mask it repeats keys and values for every
query head. No flash kernel takes a mask.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import causal_mask_function, flash_attention_mask, sdpa_mask

from stair.models.flash_kernels import PACKAGES

NAME = "sdpa_without_mask"

_BLOCK = 256 << 20
"""Bytes of the logits that `attend` holds at a time where no kernel computes them."""


def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Attention `[batch, heads, rows, head_dim]`, and the log-sum-exp `[batch, heads, rows]` of its logits.

    `q` is `[batch, heads, rows, head_dim]`; `k` and `v` are `[batch, heads, entries, head_dim]`. The arithmetic is FP32, FP64
    for FP64 input. With `causal`, a row attends to the entries up to its own place. Without entries the attention is zero and
    the log-sum-exp is minus infinity.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    q, k, v = (part.to(wide) for part in (q, k, v))
    if not k.shape[2]:
        return torch.zeros_like(q), q.new_full(q.shape[:3], -torch.inf)
    if q.device.type == "cpu":  # the kernel behind SDPA, which does not return the log-sum-exp
        out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, is_causal=causal)
        return out, sums
    return _attend_in_blocks(q, k, v, causal=causal)


def _attend_in_blocks(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    """`attend` by products, a block of rows at a time."""
    step = max(1, _BLOCK // (math.prod(q.shape[:2]) * k.shape[2] * q.element_size()))
    blocks = []
    for start in range(0, q.shape[2], step):
        logits = q[:, :, start : start + step] @ k.mT * q.shape[-1] ** -0.5
        if causal:
            later = torch.ones(logits.shape[2:], dtype=torch.bool, device=q.device).triu(start + 1)
            logits.masked_fill_(later, -torch.inf)
        sums = logits.logsumexp(-1)
        blocks.append(((logits - sums[..., None]).exp_() @ v, sums))
    out, sums = (torch.cat(part, dim=2) for part in zip(*blocks, strict=True))
    return out, sums


def implementation(attention: str, dtype: torch.dtype, device: str) -> str:
    """Transformers' `attn_implementation` for a configured `sdpa`: `causal_attention` on GPUs with a flash kernel.

    Other configured names stay. On a CPU, and in FP32, `sdpa` is Transformers' own.
    """
    if attention != "sdpa" or not device.startswith("cuda") or torch.version.cuda is None or dtype.itemsize > 2:
        return attention
    return NAME if torch.cuda.get_device_capability(device) >= (8, 0) else attention


def configured(model: Any) -> str:
    """The attention of a model under its name in the configuration and in response keys."""
    name = str(model.config._attn_implementation)
    return "sdpa" if name == NAME else name


def needs_no_mask(model: Any) -> bool:
    """Whether a model's attention behind a prefix takes no mask, and keys and values once for all their query heads."""
    return model.config._attn_implementation in (NAME, *PACKAGES)


def no_padding(model: Any, ids: Tensor) -> Any:
    """The mask of rows `ids` `[rows, tokens]` without padding, for a pass without a cache.

    Transformers searches a mask for padding and, without one, the positions for packed sequences. The host waits for either.
    It does not search masks by kind of layer, which models with several kinds of layers accept. Attention is causal without
    a mask, except `eager`.
    """
    kinds = getattr(model.config, "layer_types", None)
    if kinds is None or configured(model) == "eager":
        return torch.ones_like(ids)
    return dict.fromkeys(kinds)


def causal_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as Transformers calls it: `[rows, tokens, query_heads, head_dim]`, and no weights.

    Without a mask, the queries `[rows, query_heads, tokens, head_dim]` are the last of the keys' tokens
    `[rows, kv_heads, visible, head_dim]`. One query, a whole row and a mask are left to Transformers.
    """
    tokens, visible = query.shape[2], key.shape[2]
    if attention_mask is not None or not 1 < tokens < visible:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    bias = causal_lower_right(tokens, visible)
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scaling, enable_gqa=True)
    return out.transpose(1, 2).contiguous(), None


def causal_mask(**options: Any) -> Tensor | None:
    """No mask where `causal_attention` needs none; else that of SDPA, for padded rows. Called by Transformers."""
    queries, keys = (options[f"{part}_offset"] + options[f"{part}_length"] for part in ("q", "kv"))
    if queries != keys:  # a static cache has room behind its tokens, and the queries are not the last of its keys
        options["allow_is_causal_skip"] = False
    plain = options["mask_function"] is causal_mask_function and options["allow_is_causal_skip"]
    if plain and flash_attention_mask(**options) is None:
        return None
    mask: Tensor | None = sdpa_mask(**options)
    return mask


def flash_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Transformers' own, without the positions: in each layer it searches them for packed sequences, and the host waits."""
    options.pop("position_ids", None)
    output: tuple[Tensor, None] = flash_attention_forward(module, query, key, value, attention_mask, **options)
    return output


for _name in PACKAGES:
    AttentionInterface.register(_name, flash_attention)
AttentionInterface.register(NAME, causal_attention)
AttentionMaskInterface.register(NAME, causal_mask)
