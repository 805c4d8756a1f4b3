"""Boxes, arrows and type on a plane that is measured in points of the printed page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stair.paper.figures.figure import Figure, canvas
from stair.paper.figures.style import (
    BODY,
    COLOURS,
    INK,
    LINE,
    MUTED,
    RULE,
    SMALL,
    TEXT_WIDTH,
    THIN,
    TINY,
    text_width,
)
from stair.paper.labels import Labels
from stair.statistics.values import Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

Point = tuple[float, float]

FROZEN, LEARNED, BANK, CURRENT, PLAIN = "#ececec", COLOURS["stair"], "#cfe6dc", "#f7e3ad", "white"
"""Fills: weights that stay fixed, parameters that are trained, a bank's entries, the current problem, everything else."""

_PAD = 2.5
_SMALLEST = 4.5


def place(drawing: Drawing, x: float, y: float, width: float, height: float) -> Axes:
    """Axes at a place in points from the figure's lower left corner."""
    across, up = drawing.get_size_inches() * 72
    axes: Axes = drawing.add_axes((x / across, y / up, width / across, height / up))
    return axes


class Diagram:
    """A plane of `width` x `height` points over the full width of a figure; the origin is at the lower left."""

    def __init__(self, drawing: Drawing, bottom: float, height: float) -> None:
        """`bottom`, in points, is where the plane begins above the figure's lower edge."""
        self.width, self.height = TEXT_WIDTH * 72, height
        self.axes = place(drawing, 0, bottom, self.width, height)
        self.axes.set(xlim=(0, self.width), ylim=(0, height))
        self.axes.axis("off")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = SMALL,
        bold: bool = False,
        colour: str = INK,
        align: str = "center",
        room: float | None = None,
    ) -> None:
        """Type whose middle is at the height `y`; where it is wider than `room` points, it is set smaller."""
        lines = text.split("\n")
        widest = max(text_width(line, size, bold) for line in lines)
        if room is not None and widest > room:
            size = max(_SMALLEST, size * room / widest)
        one = len(lines) == 1
        self.axes.text(
            x,
            y - 0.32 * size if one else y,  # the middle of a capital, whatever hangs below the line
            text,
            fontsize=size,
            fontweight="bold" if bold else "normal",
            color=colour,
            ha=align,
            va="baseline" if one else "center",
            linespacing=1.1,
        )

    def note(
        self, x: float, y: float, text: str, *, colour: str = MUTED, align: str = "left", room: float | None = None
    ) -> None:
        """Small type."""
        self.text(x, y, text, size=TINY, colour=colour, align=align, room=room)

    def title(self, x: float, y: float, letter: str, text: str) -> None:
        """A panel's letter and title."""
        self.text(x, y, f"({letter}) {text}", size=BODY, bold=True, align="left")

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        text: str = "",
        *,
        fill: str = PLAIN,
        edge: str = INK,
        dashed: bool = False,
        line: float = THIN,
        size: float = SMALL,
        bold: bool = False,
    ) -> None:
        """A rectangle from its lower left corner, with type in its middle; on a dark fill the type is white."""
        from matplotlib.colors import to_rgb
        from matplotlib.patches import Rectangle

        style: Any = (0, (3, 2)) if dashed else "-"
        self.axes.add_patch(
            Rectangle((x, y), width, height, facecolor=fill, edgecolor=edge, linestyle=style, linewidth=line)
        )
        if text:
            red, green, blue = to_rgb(fill)
            colour = INK if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
            self.text(x + width / 2, y + height / 2, text, size=size, bold=bold, colour=colour, room=width - 2 * _PAD)

    def arrow(self, *points: Point, colour: str = INK, dashed: bool = False, line: float = LINE) -> None:
        """An arrow along straight pieces to the last point."""
        from matplotlib.patches import FancyArrowPatch

        style: Any = (0, (3, 2)) if dashed else "-"
        if len(points) > 2:
            across, up = zip(*points[:-1], strict=True)
            self.axes.plot(across, up, color=colour, linewidth=line, linestyle=style, solid_capstyle="butt")
        self.axes.add_patch(
            FancyArrowPatch(
                points[-2],
                points[-1],
                arrowstyle="-|>,head_length=3,head_width=1.6",
                mutation_scale=1,
                shrinkA=0,
                shrinkB=0,
                color=colour,
                linewidth=line,
                linestyle=style,
            )
        )

    def rule(self, *points: Point, colour: str = RULE, line: float = THIN) -> None:
        """A line without a head."""
        across, up = zip(*points, strict=True)
        self.axes.plot(across, up, color=colour, linewidth=line)

    def sign(self, x: float, y: float, sign: str) -> None:
        """An operation in a circle."""
        from matplotlib.patches import Circle

        self.axes.add_patch(Circle((x, y), 5.5, facecolor=PLAIN, edgecolor=INK, linewidth=THIN, zorder=3))
        horizontal = [(x - 3, y), (x + 3, y)]
        for points in (horizontal, [(x, y - 3), (x, y + 3)]) if sign == "+" else (horizontal,):
            across, up = zip(*points, strict=True)
            self.axes.plot(across, up, color=INK, linewidth=LINE, zorder=4)

    def table(self, x: float, y: float, widths: Sequence[float], rows: Sequence[Sequence[str]]) -> None:
        """Rows of text below `y`, the first as a header above a rule: the first column to the left, the others to the right."""
        height = table_row()
        for number, row in enumerate(rows):
            end, middle = x, y - height * (number + 0.5)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
                left, end = end, end + width
                place = left if column == 0 else end
                self.text(
                    place,
                    middle,
                    cell,
                    size=TINY,
                    colour=MUTED if number == 0 else INK,
                    align="left" if column == 0 else "right",
                    room=width - 3,
                )
        self.rule((x, y - height), (x + sum(widths), y - height))


def schematic(
    name: str,
    labels: Labels,
    panels: Sequence[tuple[float, Callable[[Diagram, float], Iterable[Value]]]],
    columns: Mapping[str, float],
    rows: Sequence[Sequence[str]],
    numbers: Mapping[str, Mapping[str, float]],
) -> Figure:
    """A figure of STAIR's controllers: panels from top to bottom, below them a table of the models.

    Args:
        name: the figure's.
        labels: the run's labels.
        panels: each one's height in points, and what draws it above a height and gives the numbers that it shows.
        columns: the table's headings and their widths.
        rows: the table's.
        numbers: the table's numbers by model and metric.
    """
    table = table_row() * (len(rows) + 1) + 6
    base = sum(height for height, _ in panels) + table
    values: list[Value] = []
    with canvas(base, labels.notes) as (drawing, foot):
        plane = Diagram(drawing, foot, base)
        for height, draw in panels:
            base -= height
            values += draw(plane, base)
        plane.table(2, table - 2, list(columns.values()), [list(columns), *rows])
    for model, of_model in numbers.items():
        values += [Value(model, "", "stair", "", "", metric, number, "") for metric, number in of_model.items()]
    return Figure(name, tuple(values), drawing)


def table_row() -> float:
    """Points that a row of a table takes."""
    return TINY * 1.4


def count(value: float | None) -> str:
    """A whole number with thousands separated; a dash where there is none."""
    return "–" if value is None else f"{value:,.0f}"
