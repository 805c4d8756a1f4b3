"""SDPA on GPUs without a mask behind a cached prefix, so that a flash kernel runs; FlashAttention without a wait in each layer.

Transformers gives SDPA a mask when there are more keys than queries, and with a mask it repeats keys and values for every
query head. No flash kernel takes a mask.
"""

from __future__ import annotations

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
