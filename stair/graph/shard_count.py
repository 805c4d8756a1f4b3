"""How many shards an output waits for. Changing the shard count does not invalidate sealed outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from stair.graph.origin import has_settings
from stair.graph.output_kind import Piece
from stair.graph.settings import Settings

_MARKER = re.compile(r"shard-(\d+)-of-(\d+)\.json")


def shard_count(sealed: Piece, work: Path, settings: Callable[[], Settings], configured: int) -> int:
    """The number of shards that an output's seal depends on.

    Args:
        sealed: the sealed files and their manifest.
        work: its work folder, which contains the shards' completion markers.
        settings: the current settings.
        configured: the number of shards in the configuration.

    Returns:
        The number of shards that the output was sealed from, if it exists and its settings are current; else `configured`.
    """
    if not all(file.is_file() for file in sealed.files) or not has_settings(sealed.manifest, settings):
        return configured
    marker_times: dict[int, dict[int, float]] = {}
    for path in work.glob("shard-*-of-*.json"):
        if match := _MARKER.fullmatch(path.name):
            marker_times.setdefault(int(match[2]), {})[int(match[1])] = path.stat().st_mtime
    complete = {of: max(ended.values()) for of, ended in marker_times.items() if ended.keys() == set(range(of))}
    return max(complete, key=lambda of: complete[of], default=configured)
