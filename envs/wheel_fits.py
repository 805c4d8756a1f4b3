"""Prints why a prebuilt wheel does not fit this environment, by its file name: `python envs/wheel_fits.py WHEEL`.

The name contains versions, for example `flash_attn-2.8.3+cu130torch2.13-cp311-cp311-linux_x86_64.whl`. The command prints
nothing if these fit, or if the name contains none.
"""

from __future__ import annotations

import re
import sys


def fault(wheel: str, torch: str, cuda: str, python: str) -> str:
    """Return why a wheel does not fit, by the first version in its name that differs; empty if none does.

    Args:
        wheel: a file or an address, whose `+` may be written `%2B`.
        torch, cuda, python: the environment's versions, such as `2.13.0+cu130`, `13.0` and `3.11`.
    """
    name = wheel.rsplit("/", 1)[-1].replace("%2B", "+")
    if (found := re.search(r"torch(\d+)\.(\d+)", name)) and list(found.groups()) != torch.split(".")[:2]:
        return f"the wheel is for torch {found[1]}.{found[2]}, and torch {torch} is installed"
    # cu13 is any CUDA 13; cu130 is 13.0.
    if (found := re.search(r"\+.*?cu(\d{2})(\d?)", name)) and (
        found[1] != cuda.split(".")[0] or found[2] not in ("", [*cuda.split("."), ""][1])
    ):
        named = f"{found[1]}.{found[2]}".rstrip(".")
        return f"the wheel is for CUDA {named}, and torch is built for {f'CUDA {cuda}' if cuda else 'the CPU'}"
    if (found := re.search(r"-cp(\d)(\d+)-", name)) and f"{found[1]}.{found[2]}" != python and "-abi3-" not in name:
        return f"the wheel is for Python {found[1]}.{found[2]}, and this is Python {python}"
    return ""


if __name__ == "__main__":
    import torch

    print(
        fault(sys.argv[1], torch.__version__, torch.version.cuda or "", f"{sys.version_info[0]}.{sys.version_info[1]}")
    )
