"""One reported number with its keys: a row of a tidy table."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from stair.statistics.grid import Gap

TIDY_COLUMNS = ("model", "benchmark", "condition", "turn", "group", "metric", "value", "unit", "gap")


@dataclass(frozen=True, slots=True)
class Value:
    """A number at full precision, or the gap in its place. Empty keys mean "over all" or "does not apply"."""

    model: str
    benchmark: str
    condition: str
    turn: str
    """`T1` to `T4`, or `T2-T4`"""
    group: str
    metric: str
    value: float | int | Gap
    unit: str
    artifact: str = ""
    """The part of the paper that prints it, where its table is of several."""
    low: float | None = None
    high: float | None = None
    """The 95% interval of a number that has one."""


def tidy_frame(values: Sequence[Value]) -> pd.DataFrame:
    """A frame of `TIDY_COLUMNS`: `value` is NaN where there is a gap, and `gap` its reason (None elsewhere)."""
    records = [
        (
            *(each.model, each.benchmark, each.condition, each.turn, each.group, each.metric),
            float("nan") if isinstance(each.value, Gap) else float(each.value),
            each.unit,
            each.value.reason if isinstance(each.value, Gap) else None,
        )
        for each in values
    ]
    return pd.DataFrame(records, columns=list(TIDY_COLUMNS))
