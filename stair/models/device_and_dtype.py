"""The device and the precision of a backbone, by their names in the configuration."""

from __future__ import annotations

import os

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}

_ALLOCATOR = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}
"""Variables of the environment that configure torch's allocator; torch prefers the older names."""


def resolved_device(device: str) -> str:
    """Return `device`; for `auto`, `cuda` where there is a GPU, else `cpu`. Call it before a GPU is used.

    Texts of all lengths would fragment a GPU's memory. So torch is asked for segments that grow, unless the user has chosen
    otherwise; torch reads the environment once, at its first use of a GPU.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not _ALLOCATOR & os.environ.keys():
        os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    return device


def device_for(device: str, attention: str) -> str:
    """Return `resolved_device(device)`. Raises ValueError when FlashAttention2 would run there without a GPU."""
    device = resolved_device(device)
    if attention == "flash_attention_2" and device == "cpu":
        raise ValueError("transformers.attention: FlashAttention2 needs a GPU, and there is none here; set it to sdpa")
    return device
