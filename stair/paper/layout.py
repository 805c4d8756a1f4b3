"""A table as it is laid out, and its Markdown form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import groupby
from typing import TYPE_CHECKING

from stair.records.text_tables import markdown_cells, markdown_table

if TYPE_CHECKING:
    from stair.statistics.grid import Gap

DASH = "--"
MINUS = "−"
ITALIC = {chr(0x1D44E + number): letter for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
"""Mathematical italic letters, for symbols such as a sample size.

LaTeX sets them as mathematics; the other forms print plain letters.
"""

_PLAIN = str.maketrans({**ITALIC, "∕": "/"})


@dataclass(frozen=True)
class Cell:
    """A cell's text and how it stands out."""

    text: str
    bold: bool = False
    underline: bool = False
    shaded: str | None = None
    """A LaTeX colour of the paper, where the cell is shaded and its row is not."""


@dataclass(frozen=True)
class Row:
    """A row of cells; `heading` rows have one cell over the whole width."""

    cells: tuple[Cell, ...]
    heading: bool = False
    shaded: str | None = None
    """A LaTeX colour of the paper: stairrow, vanillarow."""
    rule: str | None = None
    """A LaTeX rule below the row: midrule, addlinespace."""


@dataclass(frozen=True)
class Layout:
    """A table: header, rows, caption and the notes below it.

    A header has one or two lines of (text, columns spanned). All text is plain Unicode with `--`
    for a dash; each form escapes what is special to it.
    """

    label: str
    caption: str
    header: tuple[tuple[tuple[str, int], ...], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    columns: str = ""
    """LaTeX's alignment of each column: `l`, `c` or `r`. Default: `l`, then `r` for all others."""
    trimmed: bool = True
    """Whether LaTeX leaves out the space at the table's two sides."""
    separation: int | None = None
    """LaTeX's space beside each column, in points."""
    stretch: float | None = None
    """LaTeX's row height, in line heights."""
    size: str | None = None
    """LaTeX's type size (`footnotesize`, `tiny`) of a table that is wide or long."""
    width: int = field(init=False)

    def __post_init__(self) -> None:
        widths = {sum(span for _, span in line) for line in self.header} | {
            len(r.cells) for r in self.rows if not r.heading
        }
        assert len(widths) == 1, f"rows of {self.label} differ in width: {widths}"
        object.__setattr__(self, "width", widths.pop())
        object.__setattr__(self, "columns", self.columns or "l" + "r" * (self.width - 1))
        assert len(self.columns) == self.width, f"{self.label} aligns {len(self.columns)} of {self.width} columns"

    @property
    def left_columns(self) -> int:
        """How many columns, from the left, hold text."""
        return len(self.columns) - len(self.columns.lstrip("l"))


def rounded(value: float | Gap, digits: int = 2) -> str:
    """A number as tables print it: rounded half to even, a dash for a gap."""
    from stair.statistics.grid import Gap  # with pandas, which a table that is read from its file does not need

    if isinstance(value, Gap):
        return DASH
    text = str(Decimal(repr(round(float(value), 9))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN))
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", MINUS)


def signed(value: float | Gap) -> str:
    """As `rounded`, with a plus before numbers greater than zero."""
    text = rounded(value)
    return text if text == DASH or text.startswith(MINUS) or float(text) == 0 else f"+{text}"


def markdown(layout: Layout) -> str:
    """The table as GitHub-flavoured Markdown; a two-line header is joined into one."""
    rows = [
        [f"***{plain_text(row.cells[0].text)}***", *[""] * (layout.width - 1)]
        if row.heading
        else [_markdown_cell(cell) for cell in row.cells]
        for row in layout.rows
    ]
    head = [plain_text(text) for text in joined_header(layout)]
    lines = [f"**{plain_text(layout.caption)}**", ""]
    lines += markdown_table(head, rows, right=range(layout.left_columns, layout.width))
    for note in layout.notes:
        lines += ["", plain_text(note)]
    return "\n".join(lines) + "\n"


def read_markdown(text: str) -> Layout:
    """The table of a text that `markdown` has written. Columns whose titles differ in the last word alone are one group."""
    lines = text.splitlines()
    table = [line for line in lines if line.startswith("|")]
    before, after = lines[: lines.index(table[0])], lines[lines.index(table[-1]) + 1 :]
    titles, alignment, *rows = map(markdown_cells, table)
    groups = [
        (name, len(list(group))) for name, group in groupby(titles, lambda title: title.rpartition(" ")[0] or title)
    ]
    found = list[Row]()
    for cells in rows:
        if heading := re.fullmatch(r"\*\*\*(.*)\*\*\*", cells[0]):
            if found:
                found[-1] = replace(found[-1], rule="midrule")
            found.append(Row((Cell(heading[1]),), heading=True))
        else:
            found.append(Row(tuple(map(_cell, cells))))
    return Layout(
        label="",
        caption="\n".join(filter(None, before)).strip("*"),
        header=(tuple(("", span) for _, span in groups), tuple((title, 1) for title in titles)),
        rows=tuple(found),
        notes=tuple(filter(None, after)),
        columns="".join("r" if rule.endswith(":") else "l" for rule in alignment),
    )


def _cell(text: str) -> Cell:
    bold, underline = text.startswith("**"), "<u>" in text
    return Cell(re.sub(r"\*\*|</?u>", "", text), bold=bold, underline=underline)


def _markdown_cell(cell: Cell) -> str:
    text = plain_text(cell.text)
    if cell.underline:
        text = f"<u>{text}</u>"
    return f"**{text}**" if cell.bold else text


def joined_header(layout: Layout) -> list[str]:
    """The title of each column: its headings, joined."""
    names = [""] * layout.width
    for line in layout.header:
        column = 0
        for text, span in line:
            for index in range(column, column + span):
                names[index] = " ".join(part for part in (names[index], text) if part)
            column += span
    return names


def plain_text(text: str) -> str:
    """Text without the signs that only LaTeX sets."""
    return text.replace(DASH, "–").translate(_PLAIN)
