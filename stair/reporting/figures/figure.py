"""What every figure is: the numbers that are drawn, and the drawing in PDF and PNG."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stair.records.files import replacing, write_text
from stair.reporting.labels import Labels
from stair.reporting.tidy import tidy_csv
from stair.statistics.values import Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "stair",
}
COLOURS = {"vanilla": "#9e9e9e", "native": "#d9a441", "stair": "#2f8f6b"}
"""One colour a condition, in every figure."""


@dataclass(frozen=True)
class Figure:
    """A finished figure."""

    name: str
    artifact: str
    values: tuple[Value, ...]
    drawing: Drawing


def write(figure: Figure, labels: Labels, path: Callable[[str], Path]) -> None:
    """Writes PDF, PNG and the CSV of what is drawn; the same numbers give the same bytes."""
    write_text(path(".csv"), tidy_csv(figure.artifact, figure.values, labels))
    for suffix, options in ((".pdf", {"metadata": {"CreationDate": None}}), (".png", {"dpi": 200})):
        buffer = io.BytesIO()
        figure.drawing.savefig(buffer, format=suffix[1:], bbox_inches="tight", **options)
        with replacing(path(suffix)) as partial:
            partial.write_bytes(buffer.getvalue())
