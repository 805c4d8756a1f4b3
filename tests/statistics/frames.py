"""Reported numbers as a frame, to compare and join them."""

from collections.abc import Sequence

import pandas as pd

from stair.statistics.grid import Gap
from stair.statistics.values import Value

_KEYS = ("model", "benchmark", "condition", "turn", "group", "metric")


def frame_of(values: Sequence[Value]) -> pd.DataFrame:
    """A row for each number: its keys, `value` (NaN for a gap), unit, and `gap`, the gap's reason (None elsewhere)."""
    rows = []
    for each in values:
        gap = each.value.reason if isinstance(each.value, Gap) else None
        number = float("nan") if isinstance(each.value, Gap) else float(each.value)
        rows.append((*(getattr(each, key) for key in _KEYS), number, each.unit, gap))
    return pd.DataFrame(rows, columns=[*_KEYS, "value", "unit", "gap"])
