"""One style for every figure: sizes in inches and points of the printed page, colours, lines, and the fonts in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase

TEXT_WIDTH = 5.5
"""Width of a figure across the paper's text, inches. Files have exactly this width, so that type keeps its size."""
BODY, SMALL, TINY = 8.0, 7.0, 6.2
"""Sizes of type, points."""

INK, MUTED, RULE = "#1a1a1a", "#5a5a5a", "#8c8c8c"
"""Type and arrows; secondary type; thin rules."""
COLOURS = {"vanilla": "#dadada", "native": "#e8a33d", "stair": "#0f6b50"}
"""One colour a condition, in every figure: three steps of lightness, so that they differ in grey too."""
SERIES = ("#0f6b50", "#d55e00", "#3b6fb6", "#cc79a7", "#5a5a5a")
"""Colours of curves; every curve has a line of its own kind as well."""
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (2, 2)))
THIN, LINE, THICK = 0.6, 1.0, 1.4
"""Line widths, points."""

GROUPS: tuple[dict[str, Any], ...] = (
    {"linestyle": "-", "marker": "o", "markersize": 2.6},
    {"linestyle": (0, (4, 1.5)), "marker": "s", "markersize": 3.0, "markerfacecolor": "none"},
)
"""The two data groups of the replay: solid, and dashed with hollow squares."""

MATCHED, SHUFFLED = "#6a3d9a", "#9b9b9b"
"""Overlaps of equal problems, and of shuffled ones: purple and gray."""

STYLE: dict[Any, Any] = {
    # Matplotlib brings these fonts, so that every machine draws the same letters.
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": BODY,
    "axes.titlesize": BODY,
    "axes.labelsize": BODY,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": THIN,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": THIN,
    "ytick.major.width": THIN,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": LINE,
    "patch.linewidth": THIN,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "stair",
    "figure.dpi": 100,
    "savefig.dpi": 300,
}


@contextmanager
def styled() -> Iterator[Any]:
    """Matplotlib's pyplot in this style, without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # A user's own matplotlibrc changes no figure.
    with pyplot.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield pyplot


def mark_layer(axis: Axes, layer: int) -> None:
    """A dotted vertical line at the layer that the text reports."""
    axis.axvline(layer, color=MUTED, linewidth=THIN, linestyle=(0, (1, 1.5)), zorder=0)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Points that a line of type is wide; `$...$` is set as mathematics, and an escaped `$` is text."""
    from matplotlib.cbook import is_math_text
    from matplotlib.font_manager import FontProperties

    font = FontProperties(family=STYLE["font.family"], size=size, weight="bold" if bold else "normal")
    mathematics = is_math_text(text)
    shown = text if mathematics else text.replace(r"\$", "$")
    return float(_ruler().get_text_width_height_descent(shown, font, ismath=mathematics)[0]) * 72 / _DPI


_DPI = 288


@cache
def _ruler() -> RendererBase:
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, _DPI)


def wrapped(texts: Iterable[str], width: float, size: float) -> list[str]:
    """Paragraphs broken into lines that are at most `width` points wide in type of `size` points."""
    lines: list[str] = []
    for text in texts:
        line = ""
        for word in text.split():
            longer = f"{line} {word}".strip()
            if line and text_width(longer, size) > width:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return lines
