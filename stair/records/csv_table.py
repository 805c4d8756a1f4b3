"""Tables in CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any


def csv_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The text of a table; None is an empty cell, and lines end with a line feed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
