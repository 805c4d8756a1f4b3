"""The GPU kernels of Gated DeltaNet (Qwen3.5). Imports no torch.

Transformers takes them wherever their packages are installed, on whichever device the tensors are. They take tensors of a GPU
alone, and the import of `fla` starts CUDA.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

PACKAGES = {"fla": "flash-linear-attention", "causal_conv1d": "causal-conv1d"}
"""The packages, by the module that Transformers looks for."""


def installed() -> list[str]:
    """Return the modules that are installed."""
    return [module for module in PACKAGES if find_spec(module) is not None]


def do_without() -> None:
    """Have Gated DeltaNet computed with torch in this process, as on a CPU it must be.

    Has no effect after the import of Transformers' code of Qwen3.5, which looks for the kernels.
    """
    modules: dict[str, Any] = sys.modules
    for module in PACKAGES:
        modules.setdefault(module, None)  # an import then fails, as if the package were not there
