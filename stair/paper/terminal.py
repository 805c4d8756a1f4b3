"""A table for the terminal: a layout in plain text, in several blocks of columns where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from stair.paper.layout import Cell, Layout, Row, joined_header, plain_text

_GAP = 2
"""Spaces between two columns."""
_Widths = dict[int, int]
"""Columns with their widths, in cells of the terminal."""


def terminal(layout: Layout, width: int) -> Text:
    """The table for a terminal of `width` cells, its caption above and its notes below; print it with `soft_wrap=True`.

    A wider table becomes several blocks of columns, each with the row names. Text breaks between words only, and no line has
    trailing blanks.
    """
    lines = [Text(line, "italic") for line in _wrapped(layout.caption, width)]
    titles = Row(tuple(Cell(title, bold=True) for title in joined_header(layout)))
    for block in _blocks(layout, width):
        lines += [Text(), *_row(titles, block, layout.left_columns), Text("-" * _total(block))]
        for row in layout.rows:
            if row.heading:
                lines += [Text(line, "bold italic") for line in _wrapped(row.cells[0].text, width)]
            else:
                lines += _row(row, block, layout.left_columns)
            if row.rule and row is not layout.rows[-1]:
                lines.append(Text())
    for note in layout.notes:
        lines += [Text(), *(Text(line, "dim") for line in _wrapped(note, width))]
    return Text("\n").join(lines)


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
