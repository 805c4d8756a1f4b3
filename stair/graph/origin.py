"""Whether an output was made under the current settings, by its manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stair.graph.settings import Settings

ORIGIN = "origin"
"""The manifest's key for what an output was made from."""


def as_recorded(content: Any) -> Any:
    """The content as it comes back from a manifest's JSON: tuples are lists."""
    return json.loads(json.dumps(content))


def has_settings(manifest: Path, settings: Callable[[], Settings]) -> bool:
    """Whether a manifest exists and contains these settings."""
    try:
        recorded = json.loads(manifest.read_text(encoding="utf-8"))[ORIGIN]["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(recorded == as_recorded(settings()))
