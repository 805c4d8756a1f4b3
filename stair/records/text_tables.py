"""Tables as text: CSV, Markdown, and aligned columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any


def csv_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; None is an empty cell, and lines end with a line feed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """The lines of a table; pipes are escaped, line breaks become spaces. `right`: columns to align right, from 0."""
    numeric = set(right)
    rule = "|" + "|".join("---:" if column in numeric else "---" for column in range(len(head))) + "|"
    return [_line(head), rule, *map(_line, rows)]


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """The lines of a table for a terminal; the first `left` columns align left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    lines = ("  ".join(side(cell, width) for cell, side, width in zip(row, sides, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in lines]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def markdown_cells(line: str) -> list[str]:
    """The cells of a line of such a table."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
