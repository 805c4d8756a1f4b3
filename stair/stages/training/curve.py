"""The training curve as a CSV, and the objective before and after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stair.records.files import write_text
from stair.records.text_tables import csv_table
from stair.stages.training.loop import Measurement, UpdateRecord

COLUMNS = tuple(UpdateRecord.__dataclass_fields__)
CURVE = "curve.csv"


def write_curve(path: Path, curve: Sequence[UpdateRecord]) -> None:
    """Writes the curve's CSV; a cell without a measurement is empty."""
    write_text(path, csv_table(COLUMNS, (list(record.as_dict().values()) for record in curve)))


def objectives(before: Mapping[str, Measurement | None], after: Mapping[str, Measurement | None]) -> dict[str, Any]:
    """Means before and after training, by the name of the measurement."""
    objective: dict[str, Any] = {}
    for name, first in before.items():
        last = after[name]
        if first is None or last is None:
            continue
        objective[name] = {
            "before": _means(first),
            "after": _means(last),
            "sessions": first.sessions,
            "responses": first.responses,
        }
    return objective


def _means(measured: Measurement) -> dict[str, float]:
    return {"loss": measured.loss, "cross_entropy": measured.cross_entropy, "kl": measured.kl}


def change_lines(objective: Mapping[str, Any]) -> dict[str, str]:
    """A line of every measurement, for people."""
    lines = {}
    for name, one in objective.items():
        before, after = one["before"]["loss"], one["after"]["loss"]
        lines[name] = (
            f"{before:.4f} before, {after:.4f} after; change {after - before:+.4f}, {one['sessions']} sessions"
        )
    return lines
