"""A check and its outcome."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

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
    text = io.StringIO()
    writer = csv.DictWriter(text, list(Check.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(check) for check in checks)
    return text.getvalue()
