"""What every figure is: the numbers that are drawn, and the drawing with its notes, in PDF and PNG."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stair.paper.exhibits import Exhibit
from stair.paper.figures.style import MUTED, TEXT_WIDTH, TINY, styled, wrapped
from stair.paper.labels import Labels
from stair.paper.tidy import tidy_csv
from stair.records.files import replacing, write_text
from stair.statistics.values import Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Figure:
    """A finished figure."""

    exhibit: Exhibit
    values: tuple[Value, ...]
    drawing: Drawing
    columns: tuple[str, ...] = ()
    """Further columns of the CSV: attributes of the values."""


@contextmanager
def canvas(
    height: float, notes: Iterable[str], charts: float | None = None, **pads: float
) -> Iterator[tuple[Drawing, float]]:
    """A drawing as wide as the text, with notes at its foot and `height` points above them.

    Gives the drawing and the points that the notes take. With `charts`, matplotlib lays axes out in so many points
    above the notes, with these `pads`.
    """
    lines = wrapped(notes, TEXT_WIDTH * 72 - 4, TINY)
    foot = len(lines) * TINY * 1.25 + 5 if lines else 0.0
    whole = height + foot
    with styled() as pyplot:
        drawing = pyplot.figure(figsize=(TEXT_WIDTH, whole / 72), layout=None if charts is None else "constrained")
        engine: Any = drawing.get_layout_engine()
        if charts is not None:
            engine.set(rect=(0, foot / whole, 1, charts / whole), **pads)
        yield drawing, foot
        for number, line in enumerate(
            reversed(lines)
        ):  # one by one: matplotlib spaces lines of a text by their letters
            y = (3 + number * TINY * 1.25) / whole
            drawing.text(2 / (TEXT_WIDTH * 72), y, line, fontsize=TINY, color=MUTED, va="baseline")
        pyplot.close(drawing)


def write(figure: Figure, labels: Labels, path: Callable[[str], Path]) -> None:
    """Writes PDF, PNG and the CSV of what is drawn; the same numbers give the same bytes."""
    write_text(path(".csv"), tidy_csv(figure.exhibit.artifact, figure.values, labels, figure.columns))
    _lay_out(figure.drawing)
    for suffix, metadata in ((".pdf", {"CreationDate": None}), (".png", {})):
        buffer = io.BytesIO()
        with styled():  # how fonts are embedded is decided when the file is written
            figure.drawing.savefig(buffer, format=suffix[1:], metadata=metadata)
        with replacing(path(suffix)) as partial:
            partial.write_bytes(buffer.getvalue())


def _lay_out(drawing: Drawing) -> None:
    """Computes a drawing's layout once: each format measures type a little differently, and would move the axes."""
    if drawing.get_layout_engine() is not None:
        with styled():
            drawing.draw_without_rendering()
        drawing.set_layout_engine("none")
