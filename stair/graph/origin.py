"""What a manifest records of an output's origin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stair.graph.settings import Settings

ORIGIN = "origin"
"""The manifest's key for what an output was made from."""

BEHIND = "behind"
"""The origin's key, in an archive, for the jobs that all of this was made by: `[output, *name]` with the settings' digest."""


def as_recorded(content: Any) -> Any:
    """The content as it comes back from a manifest's JSON: tuples are lists."""
    return json.loads(json.dumps(content))


def read_origin(manifest: Path) -> dict[str, Any] | None:
    """The origin in a manifest; None where the manifest cannot be read."""
    try:
        origin = json.loads(manifest.read_text(encoding="utf-8"))[ORIGIN]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return origin if isinstance(origin, dict) else None


def has_settings(manifest: Path, settings: Callable[[], Settings]) -> bool:
    """Whether a manifest exists and contains these settings."""
    origin = read_origin(manifest)
    return origin is not None and bool(origin.get("settings") == as_recorded(settings()))
