"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """The lines of a table; pipes are escaped, line breaks become spaces. `right`: columns to align right, from 0."""
    numeric = set(right)
    rule = "|" + "|".join("---:" if column in numeric else "---" for column in range(len(head))) + "|"
    return [_line(head), rule, *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
