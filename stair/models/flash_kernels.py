"""The packages of FlashAttention's kernels. Imports no torch."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

PACKAGES = {
    "flash_attention_2": ("flash_attn", "flash-attn"),
    "flash_attention_3": ("flash_attn_interface", "flash-attn-3"),
}
"""(module, package) of each configured attention that has kernels of its own."""

REMEDIES = {
    "flash_attention_2": "make env DEVICE=cuda FLASH_ATTN_WHEEL=<address of a wheel>",
    "flash_attention_3": ".venv/bin/python -m pip install --no-deps <address of a wheel of flash-attn-3>",
}
"""The command that installs it."""


def check_installed(attention: str) -> None:
    """Raises ValueError, with the remedy, if a configured attention has kernels of its own that are not installed."""
    if attention in PACKAGES and not installed(attention):
        raise ValueError(
            f"transformers.attention: {attention} needs the package {PACKAGES[attention][1]}, which is not installed; set "
            f"it to sdpa, or run: {REMEDIES[attention]}"
        )


def installed(attention: str) -> bool:
    """Return whether the package itself is installed: flash-attn-4, too, has a module named `flash_attn`."""
    module, package = PACKAGES[attention]
    return find_spec(module) is not None and package in {
        name.replace("_", "-") for name in metadata.packages_distributions().get(module, ())
    }
