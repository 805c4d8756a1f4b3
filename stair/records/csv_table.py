"""Tables in CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def csv_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """The text of a table: a header and one line a row, each ending with a line feed. None is an empty cell.

    Raises:
        ValueError: a row has a key that is no column.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
