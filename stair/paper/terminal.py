"""A page of Markdown in the terminal: a table has several blocks of columns where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from stair.paper.layout import Cell, Layout, Row, joined_header, plain_text, read_markdown

_GAP = 2
"""Spaces between two columns."""
_Widths = dict[int, int]
"""Columns with their widths, in cells of the terminal."""


def show(file: Path, *, without: str | None = None) -> None:
    """Prints a page that a table, the claims or the comparison wrote; `without`: a paragraph that is left out."""
    console = Console()
    console.print(page(file.read_text(encoding="utf-8"), console.width, without), soft_wrap=True)


def page(text: str, width: int, without: str | None = None) -> Text:
    """The page for a terminal of `width` cells; print it with `soft_wrap=True`.

    A wider table becomes several blocks of columns, each with the row names. Text breaks between words only, and no line has
    trailing blanks.
    """
    blocks = list[list[Text]]()
    for block in text.strip().split("\n\n"):
        if block == without:
            continue
        if block.startswith("|"):
            blocks += _table(read_markdown(block), width)
        elif block.startswith("- "):
            items = (wrap(item, width, subsequent_indent="  ") for item in block.splitlines())
            blocks.append([Text(line) for lines in items for line in lines])
        else:
            style = "italic" if block.startswith("**") else "bold" if block.startswith("# ") else ""
            blocks.append([Text(line, style) for line in _wrapped(block.strip("*# "), width)])
    return Text("\n\n").join(Text("\n").join(lines) for lines in blocks)


def _table(layout: Layout, width: int) -> Iterator[list[Text]]:
    """The lines of each block of columns."""
    titles = Row(tuple(Cell(title, bold=True) for title in joined_header(layout)))
    for block in _blocks(layout, width):
        lines = [*_row(titles, block, layout.left_columns), Text("-" * _total(block))]
        for row in layout.rows:
            if row.heading:
                lines += [Text(line, "bold italic") for line in _wrapped(row.cells[0].text, width)]
            else:
                lines += _row(row, block, layout.left_columns)
            if row.rule:
                lines.append(Text())
        yield lines


def _blocks(layout: Layout, width: int) -> Iterator[_Widths]:
    """The columns of each block, the row names among them. Columns under one heading stay together where they fit."""
    names, numbers = _widths(layout, width)
    block = dict(names)
    for group in _groups(layout):
        together = {column: numbers[column] for column in group}
        parts = [together] if _total(names | together) <= width else [{column: numbers[column]} for column in group]
        for part in parts:
            if len(block) > len(names) and _total(block | part) > width:
                yield block
                block = dict(names)
            block |= part
    yield block


def _groups(layout: Layout) -> Iterator[range]:
    """The columns under each heading, without those of the row names."""
    stop = 0
    for _, span in layout.header[0]:
        start, stop = stop, stop + span
        yield range(max(start, layout.left_columns), stop)


def _widths(layout: Layout, width: int) -> tuple[_Widths, _Widths]:
    """The widths of the row names and of the other columns. Row names wrap only where no other column fits beside them."""
    least, whole = list[int](), list[int]()
    for column, title in enumerate(joined_header(layout)):
        cells = [plain_text(row.cells[column].text) for row in layout.rows if not row.heading]
        least.append(max(map(cell_len, " ".join((title, *cells)).split()), default=0))
        whole.append(max([least[-1], *map(cell_len, cells)]))
    names, numbers = dict(enumerate(whole[: layout.left_columns])), dict(enumerate(whole))
    for column in names:
        del numbers[column]
    if _total(names) + _GAP + max(numbers.values(), default=0) > width:
        space = max(width - _GAP - _total(numbers), width // 2)
        while _total(names) > space and (wide := [column for column in names if names[column] > least[column]]):
            names[max(wide, key=lambda column: names[column])] -= 1
    room = width - _GAP - _total(names)
    return names, {column: max(least[column], min(number, room)) for column, number in numbers.items()}


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _row(row: Row, block: _Widths, left: int) -> Iterator[Text]:
    """The lines of a row: those of its highest cell."""
    for words in zip_longest(*(_wrapped(row.cells[column].text, block[column]) for column in block), fillvalue=""):
        line = Text()
        for (column, width), word in zip(block.items(), words, strict=True):
            blank = " " * (width - cell_len(word))
            line.append(blank if column >= left else "").append(word, _style(row.cells[column]))
            line.append(blank if column < left else "").append(" " * _GAP)
        line.rstrip()
        yield line


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(plain_text(text), width, break_long_words=False, break_on_hyphens=False) or [""]


def _style(cell: Cell) -> str:
    return " ".join(name for name, on in (("bold", cell.bold), ("underline", cell.underline)) if on)
