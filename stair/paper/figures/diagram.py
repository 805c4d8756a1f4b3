"""Boxes, arrows and type on a plane that is measured in points of the printed page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import dist
from typing import TYPE_CHECKING, Any, NamedTuple

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
from stair.paper.source import Source
from stair.statistics.values import Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

Point = tuple[float, float]

FROZEN, LEARNED, BANK, CURRENT, PLAIN = "#ececec", COLOURS["stair"], "#cfe6dc", "#f7e3ad", "white"
"""Fills: weights that stay fixed, parameters that are trained, a bank's entries, the current problem, everything else."""

_PAD = 2.5
_SMALLEST = 4.5
_SIGN = 11.0
"""The diameter of a sign."""


def place(drawing: Drawing, x: float, y: float, width: float, height: float) -> Axes:
    """Axes at a place in points from the figure's lower left corner."""
    across, up = drawing.get_size_inches() * 72
    axes: Axes = drawing.add_axes((x / across, y / up, width / across, height / up))
    return axes


class Box(NamedTuple):
    """A rectangle on the plane, from its lower left corner."""

    x: float
    y: float
    width: float = 0.0
    height: float = 0.0

    @property
    def middle(self) -> Point:
        """Its middle."""
        return self.x + self.width / 2, self.y + self.height / 2

    def facing(self, other: Box) -> Point:
        """The point of its edge where a straight line to another box begins."""
        (x, y), (left, right), (bottom, top) = self.middle, _shared(self, other, 0), _shared(self, other, 1)
        if left <= right:
            return (left + right) / 2, self.y + (self.height if other.middle[1] > y else 0.0)
        return self.x + (self.width if other.middle[0] > x else 0.0), (bottom + top) / 2 if bottom <= top else y


def _shared(one: Box, other: Box, axis: int) -> Point:
    """The ends of the part of an axis that both boxes cover; the first is greater where there is none."""
    return max(one[axis], other[axis]), min(one[axis] + one[axis + 2], other[axis] + other[axis + 2])


def around(boxes: Sequence[Box]) -> Box:
    """The smallest box around a row of boxes."""
    return boxes[0]._replace(width=boxes[-1].x + boxes[-1].width - boxes[0].x)


def corner(start: Box, end: Box) -> Point:
    """Where an arrow turns that leaves one box to its side and reaches another one from above or below."""
    return end.middle[0], start.middle[1]


Cell = dict[str, Any]
"""A box of a row before its place is known."""


def cell(text: str, width: float, height: float = 16.0, **style: Any) -> Cell:
    """A cell; `style` as for `Diagram.box`."""
    return {"text": text, "width": width, "height": height, **style}


class Diagram:
    """A plane `height` points high, from `left` to the right edge of a figure; the origin is at the lower left."""

    def __init__(self, drawing: Drawing, bottom: float, height: float, left: float = 0.0) -> None:
        """`bottom`, in points, is where the plane begins above the figure's lower edge."""
        self.width, self.height = TEXT_WIDTH * 72 - left, height
        self.axes = place(drawing, left, bottom, self.width, height)
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

    def title(self, letter: str, text: str) -> None:
        """A panel's letter and title, at its top."""
        self.text(2, self.height - 7, f"({letter}) {text}", size=BODY, bold=True, align="left")

    def below(self, box: Box, text: str) -> None:
        """A note in the middle below a box."""
        self.note(box.middle[0], box.y - 6, text, align="center")

    def key(self, x: float, y: float, fill: str, meaning: str, **style: Any) -> None:
        """The meaning of a fill."""
        self.box(x, y - 3, 9, 6, fill=fill)
        self.text(x + 12, y, meaning, align="left", **style)

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
    ) -> Box:
        """A rectangle from its lower left corner, with type in its middle; on a dark fill the type is white."""
        from matplotlib.colors import to_rgb
        from matplotlib.patches import Rectangle

        box = Box(x, y, width, height)
        style: dict[str, Any] = {"facecolor": fill, "edgecolor": edge, "linewidth": line, "linestyle": _stroke(dashed)}
        self.axes.add_patch(Rectangle((x, y), width, height, **style))
        if text:
            red, green, blue = to_rgb(fill)
            colour = INK if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
            self.text(*box.middle, text, size=size, bold=bold, colour=colour, room=width - 2 * _PAD)
        return box

    def sign(self, x: float, y: float, sign: str) -> Box:
        """An operation, `+` or `-`, in a circle."""
        from matplotlib.patches import Circle

        self.axes.add_patch(Circle((x, y), _SIGN / 2, facecolor=PLAIN, edgecolor=INK, linewidth=THIN, zorder=3))
        for across, up in ((3, 0), (0, 3)) if sign == "+" else ((3, 0),):
            self.axes.plot([x - across, x + across], [y - up, y + up], color=INK, linewidth=LINE, zorder=4)
        return Box(x - _SIGN / 2, y - _SIGN / 2, _SIGN, _SIGN)

    def row(self, x: float, y: float, *parts: Cell | str | float | tuple[float, str], **arrows: Any) -> list[Box]:
        """Boxes and signs from left to right, all with their middle at the height `y`.

        `parts`: cells, signs, and gaps with an arrow, which can have a text. `arrows`: their style.
        """
        boxes: list[Box] = []
        gap: tuple[float, str] | None = None
        for part in parts:
            if not isinstance(part, dict | str):
                gap = part if isinstance(part, tuple) else (part, "")
                x += gap[0]
                continue
            if isinstance(part, str):
                boxes.append(self.sign(x + _SIGN / 2, y, part))
            else:
                boxes.append(self.box(x, y - part["height"] / 2, **part))
            if gap:
                self.arrow(*boxes[-2:], text=gap[1], **arrows)
            x, gap = x + boxes[-1].width, None
        return boxes

    def arrow(
        self, *places: Box | Point, text: str = "", colour: str = INK, dashed: bool = False, line: float = LINE
    ) -> None:
        """An arrow along straight pieces, from the edge of a box or a point to the edge of another; `text` is beside it."""
        from matplotlib.patches import FancyArrowPatch

        boxes = [place if isinstance(place, Box) else Box(*place) for place in places]
        points = [boxes[0].facing(boxes[1]), *(box.middle for box in boxes[1:-1]), boxes[-1].facing(boxes[-2])]
        style: dict[str, Any] = {"color": colour, "linewidth": line, "linestyle": _stroke(dashed)}
        if len(points) > 2:
            self.axes.plot(*zip(*points[:-1], strict=True), solid_capstyle="butt", **style)
        style |= {"arrowstyle": "-|>,head_length=3,head_width=1.6", "mutation_scale": 1, "shrinkA": 0, "shrinkB": 0}
        self.axes.add_patch(FancyArrowPatch(points[-2], points[-1], **style))
        if text:
            (x, y), (end, top) = max(pairwise(points), key=lambda piece: dist(*piece))
            beside, above = (4, 0) if x == end else (0, 6)
            size, ink = (SMALL, INK) if "$" in text else (TINY, MUTED if colour == INK else colour)
            align = "left" if beside else "center"
            self.text((x + end) / 2 + beside, (y + top) / 2 + above, text, size=size, colour=ink, align=align)

    def table(self, x: float, y: float, width: float, rows: Sequence[Sequence[str]]) -> None:
        """Rows of text below `y`, the first as a header above a rule: the first column to the left, the others to the right.

        Columns are as wide as their text and share the space that is left; without any, the first one is set smaller.
        """
        needed = [max(text_width(each, TINY) for each in column) for column in zip(*rows, strict=True)]
        gap = max(4.0, (width - sum(needed)) / (len(needed) - 1))
        ends = [
            x + width - sum(needed[column + 1 :]) - gap * (len(needed) - 1 - column) for column in range(len(needed))
        ]
        for number, row in enumerate(rows):
            middle, colour = y - table_row() * (number + 0.5), INK if number else MUTED
            self.note(x, middle, row[0], colour=colour, room=ends[0] - x)
            for each, end in zip(row[1:], ends[1:], strict=True):
                self.note(end, middle, each, colour=colour, align="right")
        self.axes.plot([x, x + width], [y - table_row()] * 2, color=RULE, linewidth=THIN)


def _stroke(dashed: bool) -> Any:
    return (0, (3, 2)) if dashed else "-"


def schematic(
    source: Source,
    panels: Sequence[tuple[float, Callable[[Diagram], Iterable[Value]]]],
    rows: Sequence[Sequence[str]],
    numbers: Mapping[str, Mapping[str, float]],
) -> Figure:
    """A figure of STAIR's controllers: panels from top to bottom, below them a table of the models.

    Args:
        source: the figure's.
        panels: each one's height in points, and what draws it on its plane and gives the numbers that it shows.
        rows: the table's, its headings first.
        numbers: the table's numbers by model and metric.
    """
    table = table_row() * len(rows) + 6
    top = sum(height for height, _ in panels) + table
    values: list[Value] = []
    with canvas(top, source.labels.notes) as (drawing, foot):
        for height, draw in panels:
            top -= height
            values += draw(Diagram(drawing, foot + top, height))
        plane = Diagram(drawing, foot, table)
        plane.table(2, table - 2, plane.width - 4, rows)
    for model, of_model in numbers.items():
        values += [Value(model, "", "stair", "", "", metric, number, "") for metric, number in of_model.items()]
    return Figure(source.exhibit, tuple(values), drawing)


def table_row() -> float:
    """Points that a row of a table takes."""
    return TINY * 1.4


def count(value: float | None) -> str:
    """A whole number with thousands separated; a dash where there is none."""
    return "–" if value is None else f"{value:,.0f}"
