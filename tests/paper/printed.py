"""LaTeX tables taken apart, so that two of them can be compared line by line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAPER_TABLES = Path(__file__).with_name("paper_tables.tex")
"""The paper's tables that follow from response rows or from the configuration."""

_TABLE = re.compile(r"\\begin\{(table|wraptable)\}.*?\\end\{\1\}", re.DOTALL)
_LENGTH = re.compile(r"(?m)^\\(?:setlength|renewcommand)\{.*$")
_REPEATED = re.compile(r"\*\{(\d+)\}\{(\w)\}")


@dataclass(frozen=True)
class Printed:
    """One table. White space around `&` and before a line's end does not count."""

    label: str
    caption: str
    lengths: tuple[str, ...]
    """Settings before the caption: column separation, row stretch."""
    columns: str
    """The column specification; `*{3}{r}` is written out as `rrr`."""
    lines: tuple[str, ...]
    """Every line of the tabular: rules, header, body."""
    notes: tuple[str, ...]
    """The paragraphs below the tabular."""


def printed(text: str) -> dict[str, Printed]:
    """The tables of a LaTeX text by their labels."""
    tables = [_taken_apart(match[0]) for match in _TABLE.finditer(text)]
    return {table.label: table for table in tables}


def _taken_apart(text: str) -> Printed:
    before, specification, inside, below = re.fullmatch(
        r"(.*)\\begin\{tabular\}\{(.*?)\}\n(.*)\\end\{tabular\}\n(.*)\\end\{\w+\}", text, re.DOTALL
    ).groups()  # type: ignore[union-attr]
    caption = re.search(r"(?m)^\\caption\{(.*)\}$", before)
    label = re.search(r"\\label\{(.*)\}", before)
    assert caption is not None and label is not None, text
    return Printed(
        label[1],
        caption[1],
        tuple(_LENGTH.findall(before)),
        _REPEATED.sub(lambda match: int(match[1]) * match[2], specification),
        tuple(_line(line) for line in inside.splitlines()),
        tuple(note.strip() for note in below.split(r"\par\smallskip\noindent")[1:]),
    )


def _line(line: str) -> str:
    ended = line.rstrip().endswith(r"\\")
    cells = [cell.strip() for cell in line.rstrip().removesuffix(r"\\").split("&")]
    return " & ".join(cells) + (r"\\" if ended else "")
