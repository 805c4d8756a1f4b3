"""How many shards an output waits for: their number alone makes nothing again that is sealed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from stair.graph.origin import made_under
from stair.graph.output_kind import Piece
from stair.graph.settings import Settings

_MARKER = re.compile(r"shard-(\d+)-of-(\d+)\.json")


def shard_count(sealed: Piece, work: Path, settings: Callable[[], Settings], configured: int) -> int:
    """The number of shards that an output's seal depends on.

    Args:
        sealed: the sealed files and their manifest.
        work: its work folder, where shards leave a marker when they have ended.
        settings: the settings that the configuration has now.
        configured: how many shards there are to be where there is work.

    Returns:
        The number that the output was sealed from, where it is there and made under these settings; else the configured one.
    """
    if not all(file.is_file() for file in sealed.files) or not made_under(sealed.manifest, settings):
        return configured
    times: dict[int, dict[int, float]] = {}
    for path in work.glob("shard-*-of-*.json"):
        if found := _MARKER.fullmatch(path.name):
            times.setdefault(int(found[2]), {})[int(found[1])] = path.stat().st_mtime
    whole = {of: max(ended.values()) for of, ended in times.items() if ended.keys() == set(range(of))}
    return max(whole, key=lambda of: whole[of], default=configured)
