"""Why responses are missing: from the manifests beside scored rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stair.records.manifest import missing_responses
from stair.statistics.grid import Reasons, TurnKey


def missing_reasons(files: Iterable[Path]) -> Reasons:
    """The reasons of missing responses.

    Args:
        files: scored rows, <model>/<benchmark>/<condition>.parquet; a file without a manifest gives no reason.
    """
    reasons: Reasons = {}
    for file in files:
        for gap in missing_responses(file):
            key = TurnKey(file.parent.parent.name, file.parent.name, file.stem, gap["turn"])
            reasons.setdefault(key, {})[gap["problem_id"], gap["sample"]] = gap["reason"]
    return reasons
