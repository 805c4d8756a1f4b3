"""The device and the precision of a backbone, by their names in the configuration."""

from __future__ import annotations

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


def resolved_device(device: str) -> str:
    """Return `device`; for `auto`, `cuda` where there is a GPU, else `cpu`."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def device_for(device: str, attention: str) -> str:
    """Return `resolved_device(device)`. Raises ValueError when FlashAttention2 would run there without a GPU."""
    device = resolved_device(device)
    if attention == "flash_attention_2" and device == "cpu":
        raise ValueError("transformers.attention: FlashAttention2 needs a GPU, and there is none here; set it to sdpa")
    return device
