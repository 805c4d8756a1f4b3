"""The reports of the servers that generated a model's rollouts: a small file each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stair.records.files import write_json


def record_server(folder: Path, shard: str, settings: str, facts: Mapping[str, Any]) -> None:
    """Writes a server's report; `shard` names its job, `settings` is the digest of the job's settings."""
    number = len(list(folder.glob(f"{shard}.*.json")))
    write_json(folder / f"{shard}.{number:03d}.json", {"settings": settings, **facts})


def servers(folder: Path, settings: str) -> list[dict[str, Any]]:
    """The distinct reports of servers with these settings, each with their number; empty if no server was started."""
    counts: dict[str, int] = {}
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts.pop("settings", None) != settings:
            continue
        text = json.dumps(facts, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
    return [{**json.loads(text), "servers": count} for text, count in counts.items()]
