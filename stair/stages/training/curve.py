"""The training curve as a CSV, and the change of the objective by training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stair.records.files import write_text
from stair.records.text_tables import csv_table
from stair.stages.training.loop import Measurement, UpdateRecord
from stair.statistics.intervals import LEVEL, Floats, bootstrap_interval

COLUMNS = tuple(UpdateRecord.__dataclass_fields__)
CURVE = "curve.csv"


def write_curve(path: Path, curve: Sequence[UpdateRecord]) -> None:
    """Writes the curve's CSV; a cell without a measurement is empty."""
    write_text(path, csv_table(COLUMNS, (list(record.as_dict().values()) for record in curve)))


def changes(before: Mapping[str, Measurement | None], after: Mapping[str, Measurement | None]) -> dict[str, Any]:
    """Means before and after, by the name of the measurement, and the change of the loss with its 95% interval over sessions."""
    objective: dict[str, Any] = {}
    for name, first in before.items():
        last = after[name]
        if first is None or last is None:
            continue
        difference = np.asarray(last.loss) - np.asarray(first.loss)
        objective[name] = {
            "before": first.means(),
            "after": last.means(),
            "change": {"loss": float(difference.mean()), **_interval(difference)},
            "sessions": len(first.loss),
            "responses": first.responses,
        }
    return objective


def _interval(differences: Floats) -> dict[str, float | None]:
    if len(differences) < 2:  # one session has no interval
        return {"low": None, "high": None, "level": None}
    interval = bootstrap_interval(differences, limits=None)
    return {"low": interval.low, "high": interval.high, "level": LEVEL}


def change_lines(objective: Mapping[str, Any]) -> dict[str, str]:
    """A line of every measurement, for people."""
    lines = {}
    for name, one in objective.items():
        change = one["change"]
        interval = "one session"
        if change["low"] is not None:
            ends = f"{change['low']:+.4f} to {change['high']:+.4f}"
            interval = f"{change['level']:.0%} interval {ends}, {one['sessions']} sessions"
        lines[name] = (
            f"{one['before']['loss']:.4f} before, {one['after']['loss']:.4f} after; change {change['loss']:+.4f} ({interval})"
        )
    return lines
