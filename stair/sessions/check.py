"""A check and its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import pandas as pd

from stair.records.text_tables import csv_table


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
    """The result; for a failure, the first row that offends."""


def checked(name: str, scope: str, frame: pd.DataFrame, wrong: pd.Series, *columns: str) -> Check:
    """A check that passes if no row of `frame` is wrong; otherwise its detail shows `columns` of the first that is."""
    if not wrong.any():
        return Check(name, scope, True, len(frame), "")
    first = ", ".join(f"{column} {frame.loc[wrong, column].iloc[0]}" for column in columns)
    return Check(name, scope, False, len(frame), f"{wrong.sum()} wrong, first: {first}")


def occurrences(frame: pd.DataFrame, expected: pd.MultiIndex) -> pd.DataFrame:
    """How often each combination of the columns that `expected` names occurs, sorted, with whether it is expected."""
    names = list(expected.names)
    found = pd.MultiIndex.from_frame(frame[names])
    every = expected.union(found.unique())
    times = found.value_counts().reindex(every, fill_value=0)
    return every.to_frame(index=False).assign(times=times.to_numpy(), expected=every.isin(expected))


def checks_csv(checks: Iterable[Check]) -> str:
    return csv_table(list(Check.__dataclass_fields__), (astuple(check) for check in checks))
