"""The labelled answer pairs: whole responses, references, and whether they are equal, each with its reason."""

import json
from pathlib import Path
from typing import Any

PAIRS: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("labelled_pairs.jsonl").read_text(encoding="utf-8").splitlines()
]
