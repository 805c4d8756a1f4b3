"""The training curve as a CSV: beside the checkpoints during training, then in the controller's folder."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from stair.records.files import replacing
from stair.training.loop import UpdateRecord

COLUMNS = tuple(UpdateRecord.__dataclass_fields__)
CURVE = "curve.csv"


def write_curve(path: Path, curve: Sequence[UpdateRecord]) -> None:
    """Writes the curve's CSV; a cell without a measurement is empty."""
    with replacing(path) as partial, open(partial, "w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(record.as_dict() for record in curve)
