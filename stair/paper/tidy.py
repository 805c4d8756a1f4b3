"""Tidy CSVs: one number a line, with the columns and spellings of the paper's values."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stair.paper.labels import Labels
from stair.records.text_tables import csv_table
from stair.statistics.grid import Gap
from stair.statistics.values import Value

COLUMNS = ("artifact", "model", "benchmark", "condition", "turn", "group", "metric", "value", "unit")
AGAIN = "rebuild with: snakemake tables figures"
"""The remedy for a file that cannot be read."""


def tidy_csv(artifact: str, values: Iterable[Value], labels: Labels, more: Sequence[str] = ()) -> str:
    """The numbers of one artifact at full precision; a gap has an empty value.

    `more`: further attributes of values, as columns; without one, or with None, a cell is empty.
    """
    rows = (
        (
            value.artifact or artifact,
            labels.model(value.model) if value.model else labels.pooled(),
            labels.benchmark(value.benchmark),
            labels.condition(value.condition),
            value.turn,
            value.group,
            value.metric,
            None if isinstance(value.value, Gap) else repr(value.value),
            value.unit,
            *(None if (part := getattr(value, name, None)) is None else repr(part) for name in more),
        )
        for value in values
    )
    return csv_table((*COLUMNS, *more), rows)


def read_tidy(path: Path) -> Iterator[dict[str, str]]:
    """The lines of a tidy CSV as texts, further columns included.

    Raises:
        ValueError: the file is absent or lacks one of `COLUMNS`.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist; {AGAIN}")
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"{path} lacks the columns {', '.join(missing)}; delete it and {AGAIN}")
        yield from reader
