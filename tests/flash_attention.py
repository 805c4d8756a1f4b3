"""FlashAttention2 as its documentation states it, in plain torch: the package needs a GPU, and Transformers' calls of it do not.

With it the masks, lengths and positions that the pipeline hands to FlashAttention2 are tested on a CPU, in FP32 and FP64. What
its kernels compute, and in BF16, is seen on a GPU alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers.modeling_flash_attention_utils as used
from torch import Tensor
from transformers import PreTrainedModel

from stair.models.flash_kernels import PACKAGES
from tests.conftest import random_model


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = False,
) -> Tensor:
    """Attention of rows of equal lengths: `[rows, tokens, heads, width]`, fewer heads for keys and values."""
    rows = zip(q, k, v, strict=True)
    return torch.stack([_attention(*row, softmax_scale, causal) for row in rows])


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = False,
) -> Tensor:
    """Attention of rows one behind the other, `[all tokens, heads, width]`; row i is from `cu_seqlens[i]` to the next."""
    assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32, "the kernels take no other"
    bounds_q, bounds_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    assert len(bounds_q) == len(bounds_k) and bounds_q[-1] == len(q) and bounds_k[-1] == len(k) == len(v)
    assert int(cu_seqlens_q.diff().max()) <= max_seqlen_q and int(cu_seqlens_k.diff().max()) <= max_seqlen_k
    out = torch.full_like(q, torch.nan)
    for row in range(len(bounds_q) - 1):
        queries, sources = slice(*bounds_q[row : row + 2]), slice(*bounds_k[row : row + 2])
        out[queries] = _attention(q[queries], k[sources], v[sources], softmax_scale, causal)
    return out


def flash_attn_with_kvcache(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, *, cache_seqlens: Tensor, softmax_scale: float | None = None
) -> Tensor:
    """Attention of `[rows, tokens, heads, width]` to the first `cache_seqlens` `[rows]` positions of each row's cache."""
    assert cache_seqlens.dtype == torch.int32 and cache_seqlens.shape == q.shape[:1], "the kernels take no other"
    assert q.stride(-1) == k_cache.stride(-1) == v_cache.stride(-1) == 1
    if q.is_meta:
        return torch.empty_like(q)
    lengths = cache_seqlens.tolist()
    assert all(0 < length <= k_cache.shape[1] for length in lengths)
    rows = zip(q, k_cache, v_cache, lengths, strict=True)
    return torch.stack([_attention(one, k[:length], v[:length], softmax_scale, False) for one, k, v, length in rows])


def _attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None, causal: bool) -> Tensor:
    """One row. The causal mask is aligned to the last query and the last key; a query that sees no key gives zeros."""
    k, v = (states.repeat_interleave(q.shape[1] // states.shape[1], dim=1) for states in (k, v))
    logits = torch.einsum("qhd,khd->hqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones(len(q), len(k), dtype=torch.bool, device=q.device).triu(1 + len(k) - len(q))
        logits = logits.masked_fill(hidden, -torch.inf)
    return torch.einsum("hqk,khd->qhd", torch.softmax(logits, dim=-1).nan_to_num(0.0), v)


def use_flash_attention(monkeypatch: pytest.MonkeyPatch, attention: str = "flash_attention_2") -> Counter[str]:
    """Makes Transformers and the engine take these functions. Returns the number of calls of each, which grows."""
    calls: Counter[str] = Counter()

    def counted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(*tensors: Tensor, **options: Any) -> Tensor:
            calls[function.__name__] += 1
            return function(*tensors, **options)

        return call

    functions: dict[str, Any] = {
        "_flash_fn": counted(flash_attn_func),
        "_flash_varlen_fn": counted(flash_attn_varlen_func),
        "_pad_fn": used._pad_input,
        "_unpad_fn": used._unpad_input,
        "_process_flash_kwargs_fn": used._lazy_define_process_function(flash_attn_varlen_func),
        "_loaded_implementation": attention,
    }
    for name, function in functions.items():
        monkeypatch.setattr(used, name, function)
    for module, _ in PACKAGES.values():
        package: Any = ModuleType(module)
        package.flash_attn_with_kvcache = counted(flash_attn_with_kvcache)
        monkeypatch.setitem(sys.modules, module, package)
    return calls


def flash_model(
    architecture: str, dtype: torch.dtype = torch.float32, attention: str = "flash_attention_2"
) -> PreTrainedModel:
    """The small random model with FlashAttention2 or SDPA without a mask, which loading takes on a GPU alone."""
    model = random_model(architecture, dtype)
    model.config._attn_implementation = attention
    return model
