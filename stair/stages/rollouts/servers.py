"""The facts that each server of a model's rollouts reported when it was ready: a small file each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stair.records.files import write_json


def record_server(folder: Path, shard: str, settings: str, facts: Mapping[str, Any]) -> None:
    """Writes the facts of a server; `shard` names the job that started it, `settings` is the digest of its settings."""
    number = len(list(folder.glob(f"{shard}.*.json")))
    write_json(folder / f"{shard}.{number:03d}.json", {"settings": settings, **facts})


def servers(folder: Path, settings: str) -> list[dict[str, Any]]:
    """The distinct facts of servers with these settings, each with the number of servers; empty if no server was started."""
    counts: dict[str, int] = {}
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        facts.pop("ready_seconds", None)
        if facts.pop("settings", None) != settings:
            continue
        text = json.dumps(facts, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
    return [{**json.loads(text), "servers": count} for text, count in counts.items()]
