"""A check and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from stair.records.text_tables import csv_table

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """An invariant and whether the data satisfies it."""

    name: str
    scope: str
    """The checked data: `model/benchmark`, `model/benchmark/condition`, a schedule."""
    passed: bool
    rows: int
    """The number of checked rows."""
    detail: str
    """The result; for a failure, the first violation."""


def verdict(name: str, scope: str, rows: int, offenders: Iterable[str], summary: str = "") -> Check:
    """A check that passes when there are no offenders."""
    wrong = list(offenders)
    if not wrong:
        return Check(name, scope, True, rows, summary)
    return Check(name, scope, False, rows, f"{len(wrong)} wrong, first: {wrong[0]}")


def checks_csv(checks: Iterable[Check]) -> str:
    return csv_table(list(Check.__dataclass_fields__), (astuple(check) for check in checks))
