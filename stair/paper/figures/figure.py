"""What every figure is: the numbers that are drawn, and the drawing in PDF and PNG."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stair.paper.figures.style import styled
from stair.paper.labels import Labels
from stair.paper.tidy import tidy_csv
from stair.records.files import replacing, write_text
from stair.statistics.values import Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Figure:
    """A finished figure."""

    name: str
    artifact: str
    values: tuple[Value, ...]
    drawing: Drawing
    columns: tuple[str, ...] = ()
    """Further columns of the CSV: attributes of the values."""


def write(figure: Figure, labels: Labels, path: Callable[[str], Path]) -> None:
    """Writes PDF, PNG and the CSV of what is drawn; the same numbers give the same bytes."""
    write_text(path(".csv"), tidy_csv(figure.artifact, figure.values, labels, figure.columns))
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
