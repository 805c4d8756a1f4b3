"""Scored rows without text that may not be published."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from answer_grader.choices import choice_letter

from stair.records.schemas import SCORED
from stair.records.tables import write_table

TEXTS = ("problem", "choices", "response", "response_ids")
"""The columns of any table that hold text of a problem, or a response, which can quote it.

A response's `answer` can quote it too: there a choice's letter stays."""

_ROWS = 1024


def write_publishable(source: Path, target: Path, withheld: Collection[str]) -> None:
    """Copies scored rows, those of benchmarks in `withheld` without text.

    Raises:
        ValueError: the file does not have the columns of scored rows.
    """
    with pq.ParquetFile(source) as file:
        if not file.schema_arrow.equals(SCORED):
            raise ValueError(f"{source} does not have the columns of scored rows; delete it and run its stage again")
        rows = (row for batch in file.iter_batches(_ROWS) for row in batch.to_pylist())
        write_table(target, SCORED, publishable(rows, withheld))


def publishable(rows: Iterable[Mapping[str, Any]], withheld: Collection[str]) -> Iterator[dict[str, Any]]:
    """Rows as they may be published: those of benchmarks in `withheld` without text.

    Of such rows the identities, seeds, lengths, letters and verdicts stay; a text becomes its digest, a list (token ids
    decode to the text) becomes empty.
    """
    for row in rows:
        if row["benchmark"] not in withheld:
            yield dict(row)
            continue
        yield {name: _withheld(name, value) for name, value in row.items()}


def text_digest(text: str) -> str:
    """The digest that replaces a text that may not be published."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _withheld(name: str, value: Any) -> Any:
    if value is None or (name not in TEXTS and name != "answer"):
        return value
    if name == "answer":
        return choice_letter(value) or text_digest(value)
    return text_digest(value) if isinstance(value, str) else []
