"""What the servers of a model's rollouts said of themselves when they were ready: a small file each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stair.records.files import write_json


def record_server(folder: Path, shard: str, settings: str, facts: Mapping[str, Any]) -> None:
    """Keeps what a server said; `shard` names the job that started it, `settings` the digest of what it generated under."""
    number = len(list(folder.glob(f"{shard}.*.json")))
    write_json(folder / f"{shard}.{number:03d}.json", {"settings": settings, **facts})


def servers(folder: Path, settings: str) -> list[dict[str, Any]]:
    """The different things that servers of some settings said, with how many said it; empty where none was started."""
    counted: dict[str, int] = {}
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        facts.pop("ready_seconds", None)
        if facts.pop("settings", None) != settings:
            continue
        told = json.dumps(facts, sort_keys=True)
        counted[told] = counted.get(told, 0) + 1
    return [{**json.loads(told), "servers": count} for told, count in counted.items()]
