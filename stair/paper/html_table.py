"""A table as HTML, for the report page: the same layout as the Markdown and LaTeX forms, with its emphasis."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from stair.paper.layout import DASH, ITALIC, Cell, Layout, Row

_CHARACTERS = str.maketrans({**{italic: f"<i>{letter}</i>" for italic, letter in ITALIC.items()}, "∕": "/"})


def html_table(layout: Layout) -> str:
    """The table in a `figure` element: caption, rows, notes.

    Shaded rows and cells have the class of their LaTeX colour (`stairrow`, `vanillarow`).
    """
    lines = [
        '<figure class="table">',
        f"<figcaption>{html_text(layout.caption)}</figcaption>",
        '<div class="wide"><table>',
        "<thead>",
        *(_header(layout, line) for line in layout.header),
        "</thead>",
        "<tbody>",
        *(_row(layout, row) for row in layout.rows),
        "</tbody>",
        "</table></div>",
        *map(note_line, layout.notes),
        "</figure>",
    ]
    return "\n".join(lines) + "\n"


def note_line(note: str) -> str:
    """A note below a table."""
    return f'<p class="note">{html_text(note)}</p>'


def html_text(text: str) -> str:
    """Plain text of a layout as HTML."""
    return escape(text.replace(DASH, "–"), quote=False).translate(_CHARACTERS)


def _header(layout: Layout, line: Sequence[tuple[str, int]]) -> str:
    cells, column = [], 0
    for text, span in line:
        spans = f' colspan="{span}"' if span > 1 else ""
        classes = ["spanning"] if span > 1 and text else [] if span > 1 else _aligned(layout, column)
        cells.append(f"<th{_class(classes)}{spans}>{html_text(text)}</th>")
        column += span
    return f"<tr>{''.join(cells)}</tr>"


def _row(layout: Layout, row: Row) -> str:
    if row.heading:
        return f'<tr class="heading"><th colspan="{layout.width}">{html_text(row.cells[0].text)}</th></tr>'
    cells = (_cell(cell, _aligned(layout, column)) for column, cell in enumerate(row.cells))
    classes = [name for name in (row.shaded, "ruled" if row.rule else None) if name]
    return f"<tr{_class(classes)}>{''.join(cells)}</tr>"


def _cell(cell: Cell, classes: Sequence[str]) -> str:
    text = html_text(cell.text)
    text = f"<u>{text}</u>" if cell.underline else text
    text = f"<strong>{text}</strong>" if cell.bold else text
    return f"<td{_class([*classes, *([cell.shaded] if cell.shaded else [])])}>{text}</td>"


def _aligned(layout: Layout, column: int) -> list[str]:
    """The class of a column that is not aligned to the left."""
    name = {"r": "right", "c": "centre"}.get(layout.columns[column])
    return [name] if name else []


def _class(names: Sequence[str]) -> str:
    return f' class="{" ".join(names)}"' if names else ""
