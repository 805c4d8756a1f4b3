"""Prints hardware and versions as one JSON object.

Runs in a process of its own, because a broken driver can hang it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from stair.engines.identity import attention_path
from stair.records.manifest import commit

PACKAGES = (
    *("torch", "triton", "transformers", "numpy", "safetensors", "tokenizers", "peft", "pytest"),
    *("flash-attn", "flash-linear-attention", "causal-conv1d"),
)


def facts(device: str) -> dict[str, str]:
    """Hardware and versions. Raises ValueError without torch, and when `device` is cuda and there is none."""
    try:
        import torch
    except ImportError as error:
        torch_is = "has no torch" if getattr(error, "name", None) == "torch" else f"cannot import torch ({error})"
        raise ValueError(f"{sys.executable} {torch_is}; name another interpreter with PYTHON=") from None

    found = {"device": "CPU, at reduced shapes"}
    if device == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(
                f"torch {torch.__version__} of {sys.executable} finds no CUDA device; name another interpreter with "
                "PYTHON=, or run at small shapes with DEVICE=cpu"
            )
        shown = torch.cuda.get_device_properties(0)
        free, total = torch.cuda.mem_get_info()
        found = {
            "GPU": f"{shown.name}, compute capability {shown.major}.{shown.minor}, {shown.multi_processor_count} processors",
            "GPU memory": f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free at the start",
            "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
            "CUDA of torch": str(torch.version.cuda),
            "attention in BF16": attention_path("auto", "bfloat16", device),
        }
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found |= {
        "processor": f"{_processor()}, {cores} cores",
        "system": platform.platform(),
        "Python": platform.python_version(),
    }
    return found | {name: _version(name) for name in PACKAGES} | {"commit": commit() or "unknown"}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    try:
        print(json.dumps(facts(parser.parse_args().device)))
    except ValueError as error:
        sys.exit(f"error: {error}")
