"""A table as LaTeX, in the paper's style.

pdfLaTeX sets the characters that `escaped` translates, and Latin letters with their accents. Labels
and notes with other characters, such as Chinese or Greek ones, need XeLaTeX or LuaLaTeX and a font
that has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stair.paper.layout import ITALIC, Cell, Layout, Row

PREAMBLE = (
    r"\usepackage{booktabs,colortbl,float}",
    r"\definecolor{stairrow}{RGB}{235,244,240}",
    r"\definecolor{vanillarow}{gray}{0.9}",
)
"""Preamble lines that a document needs for these tables: packages, and the paper's two colours."""

_CHARACTERS = {
    "Δ": r"$\Delta$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    # A row's end takes a following bracket or asterisk for its own argument.
    **{"[": "{[}", "*": "{*}"},
    **{"<": "$<$", ">": "$>$", "|": "$|$", "−": "$-$", "–": "--", "—": "---", "…": r"\dots{}"},
    **{"†": r"$\dagger$", "≈": r"$\approx$", "×": r"$\times$", "±": r"$\pm$", "·": r"$\cdot$", "→": r"$\to$"},
    **{"≤": r"$\leq$", "≥": r"$\geq$", "“": r"\textquotedblleft{}", "”": r"\textquotedblright{}"},
    **{"‘": r"\textquoteleft{}", "’": r"\textquoteright{}"},
    **{italic: f"${letter}$" for italic, letter in ITALIC.items()},
}
_MOST_ROWS = 40
"""The most rows of one page. In normal size, with a caption and notes, they fill it."""
_UNIT = re.compile(r"−\d+(?:[.,]\d+)*|\d+∕√?\d+|\[\d+(?:,\d+)+\]|𝑑ₕ|.", re.DOTALL)
"""A negative number, a fraction, a list of whole numbers, the head dimension, or any other character."""


_SQUARE_ROOT, _ROOT = re.compile(r"√(\d+)"), r"\\sqrt{\1}"
_MATHEMATICAL = str.maketrans({"−": "-", "∕": "/", "𝑑": "d", "ₕ": "_h"})


def latex(layout: Layout) -> str:
    """The table in a `table` environment, or in several if it is longer than a page.

    It compiles in a document that has `PREAMBLE`.
    """
    lines = [f"% Preamble: {line}" for line in PREAMBLE]
    parts = list(_pages(layout.rows))
    for number, rows in enumerate(parts, start=1):
        notes = layout.notes if number == len(parts) else ()
        lines += _table(replace(layout, rows=rows, notes=notes), continued=number > 1)
    return "\n".join(lines) + "\n"


def _pages(rows: Sequence[Row]) -> Iterator[tuple[Row, ...]]:
    """The rows of each page. A block that continues on the next page repeats its heading there."""
    page: list[Row] = []
    heading: list[Row] = []
    for row in rows:
        if len(page) >= _MOST_ROWS - row.heading:
            yield tuple(page)
            page = [] if row.heading else [*heading]
        if row.heading:
            heading = [row]
        page.append(row)
    yield tuple(page)


def _table(layout: Layout, *, continued: bool) -> list[str]:
    """The lines of one environment."""
    lines = [
        r"\begin{table}[H]",
        r"\centering",
        *([rf"\setlength{{\tabcolsep}}{{{layout.separation}pt}}"] if layout.separation else []),
        *([rf"\renewcommand{{\arraystretch}}{{{layout.stretch}}}"] if layout.stretch else []),
        *([r"\addtocounter{table}{-1}"] if continued else []),
        rf"\caption{{{escaped(f'{layout.caption} (Continued.)' if continued else layout.caption)}}}",
        *([] if continued else [rf"\label{{{layout.label}}}"]),
        *([rf"\{layout.size}"] if layout.size else []),
        rf"\begin{{tabular}}{{{_edged(layout, layout.columns)}}}",
        r"\toprule",
    ]
    for number, line in enumerate(layout.header):
        lines.append(_joined([_header_cell(text, span) for text, span in line]))
        if number < len(layout.header) - 1 and (rules := _spanning_rules(line)):
            lines.append(rules)
    lines.append(r"\midrule")
    for row in layout.rows:
        lines.append(_heading(layout, row) if row.heading else _row(row))
        if row.rule:
            lines.append(rf"\{row.rule}")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [note_line(note) for note in layout.notes]
    lines.append(r"\end{table}")
    return lines


def escaped(text: str) -> str:
    """Plain text as LaTeX: special characters escaped, symbols and negative numbers in mathematics.

    `--` stays as it is; LaTeX prints a dash for it. Letters of other alphabets stay too.
    White space of any length is one space, because a blank line ends a paragraph and with it the
    argument of a command.
    """
    return _UNIT.sub(_translated, " ".join(text.split()))


def _translated(unit: re.Match[str]) -> str:
    text, before = unit[0], unit.string[: unit.start()]
    if len(text) > 1:
        return f"${_SQUARE_ROOT.sub(_ROOT, text).translate(_MATHEMATICAL)}$"
    if text == "†" and before and not before[-1].isspace():
        return r"$^{\dagger}$"
    return _CHARACTERS.get(text, text)


def _edged(layout: Layout, columns: str) -> str:
    return f"@{{}}{columns}@{{}}" if layout.trimmed else columns


def _joined(cells: Sequence[str]) -> str:
    return " & ".join(cells).replace("&  &", "& &").lstrip() + r"\\"


def _header_cell(text: str, span: int) -> str:
    return escaped(text) if span == 1 else rf"\multicolumn{{{span}}}{{c}}{{{escaped(text)}}}"


def _spanning_rules(line: Sequence[tuple[str, int]]) -> str:
    rules, column = [], 1
    for text, span in line:
        if text and span > 1:
            rules.append(rf"\cmidrule(lr){{{column}-{column + span - 1}}}")
        column += span
    return "".join(rules)


def _heading(layout: Layout, row: Row) -> str:
    left = "@{}l" if layout.trimmed else "l"
    return rf"\multicolumn{{{layout.width}}}{{{left}}}{{\textbf{{\textit{{{escaped(row.cells[0].text)}}}}}}}\\"


def _row(row: Row) -> str:
    shade = rf"\rowcolor{{{row.shaded}}}" if row.shaded else ""
    return shade + _joined([_cell(cell) for cell in row.cells])


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    if cell.bold:
        # \textbf does not reach into mathematics.
        text = (
            rf"\textbf{{\boldmath{' ' if text[:1].isalpha() else ''}{text}}}" if "$" in text else rf"\textbf{{{text}}}"
        )
    if cell.underline:
        text = rf"\underline{{{text}}}"
    return rf"\cellcolor{{{cell.shaded}}}{text}" if cell.shaded else text


def note_line(note: str) -> str:
    """A note below a table."""
    text = escaped(note)
    # A command's name ends where a letter does not follow.
    return rf"\par\smallskip\noindent{' ' if text[:1].isalpha() else ''}{text}"
