"""What the figures of the replay share: curves by layer, intervals, and the reasons for missing numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stair.paper.figures.figure import Figure, canvas
from stair.paper.figures.style import BODY, GROUPS, INK, MUTED, SMALL, THIN
from stair.paper.replay_numbers import COLUMNS
from stair.paper.source import Source
from stair.stages.replay.analysis.statistics_table import Statistic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

WORDS = {1: "one", 2: "two", 3: "three"}
"""Completed turns in words."""


_MARKERS = 12
"""The most markers of a curve."""


def panel_title(axes: Axes, title: str, letter: str = "") -> None:
    """A panel's letter, in bold, and its title."""
    axes.annotate(
        rf"$\bf{{{letter}}}$  {title}" if letter else title,
        (0, 1),
        xytext=(0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        linespacing=1.0,
        fontsize=BODY,
        ha="left",
        va="bottom",
    )


def draw_layers(axes: Axes, curve: Sequence[Statistic], number: int, colour: str) -> None:
    """A group's curve over layers, with the intervals of the numbers that have one.

    Args:
        axes: where to draw.
        curve: one statistic by layer; layers without a value are left out.
        number: 0 for group 1, 1 for group 2.
        colour: of the curve.
    """
    points = [(each.layer, each.value) for each in curve if each.layer is not None and each.value is not None]
    # At most `_MARKERS` layers have a marker, and the two groups mark different layers.
    step = -(-len(curve) // _MARKERS)
    marked = {"markevery": (number * step // 2, step)}
    style = dict(GROUPS[number]) | {"markersize": 2.0 if number == 0 else 2.4, "markeredgewidth": THIN} | marked
    axes.plot([layer for layer, _ in points], [value for _, value in points], color=colour, **style)
    for each in curve:
        if each.layer is not None:
            # Both groups have an interval at the same layer: each stands a little to its side.
            draw_interval(axes, each.layer + (-0.015, 0.015)[number] * len(curve), each, colour)


def draw_interval(axes: Axes, at: float, number: Statistic, colour: str) -> None:
    """The interval of a number as a wide vertical bar, if it has one."""
    ends = number.ends
    if ends is not None and ends.low is not None and ends.high is not None:
        axes.plot([at, at], [ends.low, ends.high], color=colour, linewidth=2.4, alpha=0.45, zorder=1)


def layer_axis(axes: Axes, layers: int) -> None:
    """A horizontal axis of zero-based layers."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("Layer", labelpad=1)
    axes.set_xlim(-0.6, layers - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 4, 5, 10]))


def say_missing(axes: Axes, curves: Iterable[Sequence[Statistic]]) -> None:
    """Says in a panel's middle that none of its numbers can be computed; the foot has the reason."""
    if not any(each.value is not None for curve in curves for each in curve):
        not_computable(axes)


def not_computable(axes: Axes) -> None:
    """Says so in a panel's middle, over anything drawn there."""
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    axes.text(
        *(0.5, 0.5, "not computable"), transform=axes.transAxes, ha="center", fontsize=SMALL, color=MUTED, bbox=behind
    )


def group_legend(drawing: Drawing, y: float, colour: str = INK, more: Sequence[Any] = ()) -> None:
    """The two groups' lines, and further entries, in one row at `y` points from the foot."""
    from matplotlib.lines import Line2D

    entries = [Line2D([], [], color=colour, label=f"group {number}", **style) for number, style in enumerate(GROUPS, 1)]
    legend(drawing, y, handles=[*entries, *more], handlelength=2.6)


def legend(drawing: Drawing, y: float, **entries: Any) -> None:
    """A legend in one row, unless `ncols` says otherwise, at `y` points from the foot."""
    at = (0.5, y / (drawing.get_size_inches()[1] * 72))
    entries = {"ncols": len(entries["handles"])} | entries
    drawing.legend(**entries, loc="lower center", bbox_to_anchor=at, borderpad=0, borderaxespad=0)


@contextmanager
def panels(
    height: float,
    source: Source,
    shown: Iterable[Statistic],
    more: Sequence[str] = (),
) -> Iterator[tuple[Drawing, float]]:
    """A canvas whose notes say what the figure is of, and why numbers or intervals are missing.

    `more` are further notes.
    """
    shown, numbers, labels = list(shown), source.replay, source.labels
    ends = [each.ends for each in shown if each.ends is not None]
    without = {end.method.removeprefix("none: ") for end in ends if end.method is not None and end.low is None}
    drawn = any(end.low is not None for end in ends)
    notes = [
        f"{labels.model(numbers.model)}, {labels.benchmark(numbers.benchmark)}, problem coverage, "
        f"{WORDS[numbers.depth]}-turn histories; layers count from zero.",
        *more,
        *(
            ["Wide vertical bars: 95% intervals over whole source blocks, of the numbers that the text reports."]
            if drawn
            else []
        ),
        *(f"Not computed: {reason}." for reason in dict.fromkeys(each.gap for each in shown if each.gap is not None)),
        *(f"No intervals: {reason}." for reason in sorted(without)),
        *labels.notes,
    ]
    with canvas(height, notes) as drawing_and_foot:
        yield drawing_and_foot


def figure_of(source: Source, shown: Iterable[Statistic], drawing: Drawing) -> Figure:
    """The finished figure of these statistics."""
    return Figure(source.exhibit, tuple(map(source.replay.value, shown)), drawing, COLUMNS)
