"""Figure attention: attention mass on the four source categories by layer (appendix A.2)."""

from __future__ import annotations

from stair.paper.figures.diagram import place
from stair.paper.figures.figure import Figure
from stair.paper.figures.replay_panels import draw_layers, figure_of, group_legend, layer_axis, panel_title, panels
from stair.paper.figures.style import SERIES, TEXT_WIDTH
from stair.paper.replay_numbers import GROUPS
from stair.paper.source import Source

_TITLES = {
    "user": "Earlier user bodies",
    "assistant": "Earlier assistant bodies",
    "template": "Earlier template, system",
    "current": "Current turn",
}
_HEIGHT = 84.0
_COLOUR = SERIES[2]


def build(source: Source) -> Figure:
    """Four panels with common scales."""
    numbers = source.replay
    curves = {(of, group): numbers.curve("attention mass", of, group) for of in _TITLES for group in GROUPS}
    shown = [each for curve in curves.values() for each in curve]
    ends = (each.ends.high for each in shown if each.ends is not None)
    heights = [number for number in (*(each.value for each in shown), *ends) if number is not None]
    top = min(100.0, 1.1 * max(heights, default=100.0 / 1.1))
    with panels(58 + _HEIGHT, source, shown) as (drawing, foot):
        gap, left = 9.0, 32.0
        width = (TEXT_WIDTH * 72 - left - 3 - 3 * gap) / 4
        for column, (of, title) in enumerate(_TITLES.items()):
            axes = place(drawing, left + column * (width + gap), foot + 40, width, _HEIGHT)
            for number, group in enumerate(GROUPS):
                draw_layers(axes, curves[of, group], number, _COLOUR)
            panel_title(axes, title)
            layer_axis(axes, numbers.last_layer + 1)
            axes.set_ylim(0, top)
            axes.tick_params(axis="y", labelleft=column == 0)
            if column == 0:
                axes.set_ylabel("Attention mass (%)")
        group_legend(drawing, foot + 3, _COLOUR)
    return figure_of(source, shown, drawing)
