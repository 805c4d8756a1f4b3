"""A check and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from stair.records.text_tables import csv_table

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """An invariant and whether the data holds it."""

    name: str
    scope: str
    """What it was held against: `model/benchmark`, `model/benchmark/condition`, a schedule."""
    passed: bool
    rows: int
    """How many rows were looked at."""
    detail: str
    """What was found; for a failure, the first offender."""


def verdict(name: str, scope: str, rows: int, offenders: Iterable[str], summary: str = "") -> Check:
    """A check that passes when there are no offenders."""
    wrong = list(offenders)
    if not wrong:
        return Check(name, scope, True, rows, summary)
    return Check(name, scope, False, rows, f"{len(wrong)} wrong, first: {wrong[0]}")


def checks_csv(checks: Iterable[Check]) -> str:
    """One line a check."""
    return csv_table(list(Check.__dataclass_fields__), (astuple(check) for check in checks))
