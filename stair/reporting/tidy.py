"""Tidy CSVs: one number a line, with the columns and spellings of the paper's values."""

from __future__ import annotations

from collections.abc import Iterable

from stair.records.csv_table import csv_table
from stair.reporting.labels import Labels
from stair.statistics.grid import Gap
from stair.statistics.values import Value

COLUMNS = ("artifact", "model", "benchmark", "condition", "turn", "group", "metric", "value", "unit")


def tidy_csv(artifact: str, values: Iterable[Value], labels: Labels) -> str:
    """The numbers of one artifact at full precision; a gap has an empty value."""
    rows = (
        {
            "artifact": value.artifact or artifact,
            "model": labels.model(value.model) if value.model else labels.pooled(),
            "benchmark": labels.benchmark(value.benchmark),
            "condition": labels.condition(value.condition),
            "turn": value.turn,
            "group": value.group,
            "metric": value.metric,
            "value": None if isinstance(value.value, Gap) else repr(value.value),
            "unit": value.unit,
        }
        for value in values
    )
    return csv_table(COLUMNS, rows)
