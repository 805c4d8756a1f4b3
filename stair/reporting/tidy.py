"""Tidy CSVs: one number a line, with the columns and spellings of the paper's values."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from stair.reporting.labels import Labels
from stair.statistics.grid import Gap
from stair.statistics.values import Value

COLUMNS = ("artifact", "model", "benchmark", "condition", "turn", "group", "metric", "value", "unit")


def tidy_csv(artifact: str, values: Iterable[Value], labels: Labels, more: Sequence[str] = ()) -> str:
    """The numbers of one artifact at full precision; a gap has an empty value.

    `more`: further attributes of every value, as columns; None is empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *more])
    for value in values:
        writer.writerow(
            [
                value.artifact or artifact,
                labels.model(value.model) if value.model else labels.pooled(),
                labels.benchmark(value.benchmark),
                labels.condition(value.condition),
                value.turn,
                value.group,
                value.metric,
                "" if isinstance(value.value, Gap) else repr(value.value),
                value.unit,
                *("" if (part := getattr(value, name)) is None else repr(part) for name in more),
            ]
        )
    return text.getvalue()
