"""The training curve as a CSV: beside the checkpoints during training, then in the controller's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stair.records.files import write_text
from stair.records.text_tables import csv_table
from stair.stages.training.loop import UpdateRecord

COLUMNS = tuple(UpdateRecord.__dataclass_fields__)
CURVE = "curve.csv"


def write_curve(path: Path, curve: Sequence[UpdateRecord]) -> None:
    """Writes the curve's CSV; a cell without a measurement is empty."""
    write_text(path, csv_table(COLUMNS, (list(record.as_dict().values()) for record in curve)))
