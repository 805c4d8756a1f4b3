"""Figure read_prediction: what historical reads add to a prediction of the next block's MLP response (appendix A.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stair.paper.figures.diagram import place
from stair.paper.figures.figure import Figure
from stair.paper.figures.replay_panels import draw_interval, figure_of, legend, panel_title, panels, say_missing
from stair.paper.figures.style import MUTED, SERIES, SMALL, THIN
from stair.paper.replay_numbers import DIRECTIONS
from stair.paper.source import Source
from stair.stages.replay.analysis.statistics_table import Statistic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_READS = {
    "assistant": "assistant",
    "user": "user",
    "template": "template,\nsystem",
    "assistant, shuffled across histories": "assistant,\nshuffled\nacross\nhistories",
    "assistant, shuffled across problems": "assistant,\nshuffled\nacross\nproblems",
}
_STYLES: tuple[dict[str, Any], ...] = (
    {"color": SERIES[0], "marker": "o", "markersize": 4.0},
    {"color": SERIES[1], "marker": "s", "markersize": 4.0, "markerfacecolor": "none"},
)
"""The two directions of exchange."""
_HEIGHT = 100.0


def build(source: Source) -> Figure:
    """A: the assistant read at the measured layers. B: all features at the first of them."""
    numbers, layers = source.replay, source.replay.layers
    by_layer = [
        [numbers.at("incremental R2", "assistant", each, layer=layer) for layer in layers] for each in DIRECTIONS
    ]
    by_read = [[numbers.at("incremental R2", of, each, layer=layers[0]) for of in _READS] for each in DIRECTIONS]
    base = [each for direction in DIRECTIONS for each in numbers.curve("base R2", "", direction)]
    shown = list(dict.fromkeys([*(each for curve in (*by_layer, *by_read) for each in curve), *base]))
    with panels(72 + _HEIGHT, source, shown, ["Below zero, the added read makes the prediction worse."]) as (
        drawing,
        foot,
    ):
        left = place(drawing, 40, foot + 54, 138, _HEIGHT)
        right = place(drawing, 222, foot + 54, 170, _HEIGHT)
        _draw(left, by_layer, [str(layer) for layer in layers], joined=True)
        left.set_xlabel("Measured layer")
        left.set_ylabel("Incremental test $R^2$")
        panel_title(left, "Earlier-assistant read", "A")
        _draw(right, by_read, list(_READS.values()), joined=False)
        panel_title(right, f"Equal-width features at layer {layers[0]}", "B")
        for axes in (left, right):
            axes.ticklabel_format(axis="y", style="plain", useOffset=False)
        handles, names = left.get_legend_handles_labels()
        legend(drawing, foot + 3, handles=handles, labels=names)
    return figure_of(source, shown, drawing)


def _draw(axes: Axes, curves: Sequence[Sequence[Statistic]], ticks: list[str], *, joined: bool) -> None:
    """Points of both directions at named places, above and below a line at zero."""
    axes.axhline(0, color=MUTED, linewidth=THIN, zorder=0)
    for number, (style, curve) in enumerate(zip(_STYLES, curves, strict=True)):
        known = [(place, each.value) for place, each in enumerate(curve) if each.value is not None]
        # Points of the two directions stand side by side where no line tells them apart.
        aside = 0.0 if joined else (-0.12, 0.12)[number]
        axes.plot(
            [place + aside for place, _ in known],
            [value for _, value in known],
            linestyle=("-", (0, (4, 1.5)))[number] if joined else "none",
            label=DIRECTIONS[number],
            **style,
        )
        for at, each in enumerate(curve):
            draw_interval(axes, at + (aside or (-0.03, 0.03)[number]), each, style["color"])
    say_missing(axes, curves)
    axes.set_xticks(range(len(ticks)), ticks, fontsize=SMALL, linespacing=1.0)
    axes.set_xlim(-0.5, len(ticks) - 0.5)
    axes.margins(y=0.12)
