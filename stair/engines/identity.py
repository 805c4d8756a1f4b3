"""The names and versions of engines, known without loading one."""

from __future__ import annotations

from functools import cache
from importlib import metadata

from stair.models.flash_kernels import installed


@cache
def transformers_version() -> str:
    """The Transformers engine's version: of Transformers and of torch, without torch's build suffix."""
    return f"{metadata.version('transformers')}+torch{metadata.version('torch').split('+')[0]}"


def attention_path(attention: str, dtype: str, device: str) -> str:
    """The attention implementation that a configured one means for a model.

    `auto` is FlashAttention2 where its package is installed, the precision is bfloat16, and the device is not the CPU. The
    configuration and the environment alone decide: jobs and the seal of their work agree, GPU or not.
    """
    if attention != "auto":
        return attention
    usable = dtype == "bfloat16" and device != "cpu" and installed("flash_attention_2")
    return "flash_attention_2" if usable else "sdpa"
