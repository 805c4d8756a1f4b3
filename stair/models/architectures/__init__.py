"""The architectures that the package knows: every file of this folder is one. Imports no torch.

A file has `MODEL_TYPES`, the values of `model_type` in a `config.json`; `read(config)`, which returns the fields of an
`Architecture`; and `MARKERS`, the markers of turns in the architecture's chat template.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from stair.models.turn_markers import TurnMarkers

FILES: dict[str, Any] = {
    name: import_module(f"{__name__}.{name}") for name in sorted(file.name for file in iter_modules(__path__))
}
"""The module of each architecture by its name, which is the file's."""

BY_MODEL_TYPE: dict[str, Any] = {model_type: module for module in FILES.values() for model_type in module.MODEL_TYPES}


def known_markers() -> list[TurnMarkers]:
    """The markers of all architectures, each once."""
    return list(dict.fromkeys(module.MARKERS for module in FILES.values()))
