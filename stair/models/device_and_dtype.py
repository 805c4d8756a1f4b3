"""The device and the precision of a backbone, by their names in the configuration."""

from __future__ import annotations

import os

import torch

from stair.models import flash_kernels

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


_NO_MEMORY = ("DefaultCPUAllocator: ", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: RuntimeError) -> bool:
    """Return whether an allocation failed: torch has a class for GPUs, and messages for CPUs and CUDA's libraries."""
    return isinstance(error, torch.OutOfMemoryError) or any(message in str(error) for message in _NO_MEMORY)


def device_for(device: str, attention: str) -> str:
    """Return `resolved_device(device)`. Raises ValueError when the attention needs a GPU or a package that is not there."""
    device = resolved_device(device)
    if attention in flash_kernels.PACKAGES and device == "cpu":
        raise ValueError(f"transformers.attention: {attention} needs a GPU, and there is none here; set it to sdpa")
    flash_kernels.check_installed(attention)
    return device
