"""Figure attention: attention mass on the four source categories by layer (appendix A.2)."""

from __future__ import annotations

from stair.paper import paper_labels
from stair.paper.figures.figure import Figure
from stair.paper.figures.replay_panels import draw_layers, foot_of, group_legend, layer_axis, panel_title, place
from stair.paper.figures.style import SERIES, TEXT_WIDTH, styled
from stair.paper.labels import Labels
from stair.paper.replay_numbers import COLUMNS, GROUPS, ReplayNumbers

_TITLES = {
    "user": "Earlier user bodies",
    "assistant": "Earlier assistant bodies",
    "template": "Earlier template, system",
    "current": "Current turn",
}
_HEIGHT = 84.0
_COLOUR = SERIES[2]


def build(numbers: ReplayNumbers, labels: Labels) -> Figure:
    """Four panels with common scales."""
    curves = {(of, group): numbers.curve("attention mass", of, group) for of in _TITLES for group in GROUPS}
    shown = [each for curve in curves.values() for each in curve]
    foot = foot_of(numbers, shown, labels, draws_intervals=True)
    bottom = foot.height * 72 + 16
    with styled() as pyplot:
        drawing = pyplot.figure(figsize=(TEXT_WIDTH, (bottom + 24 + _HEIGHT + 18) / 72))
        gap, left = 9.0, 32.0
        width = (TEXT_WIDTH * 72 - left - 3 - 3 * gap) / 4
        for column, (of, title) in enumerate(_TITLES.items()):
            axes = place(drawing, left + column * (width + gap), bottom + 24, width, _HEIGHT)
            for number, group in enumerate(GROUPS):
                draw_layers(axes, curves[of, group], number, _COLOUR)
            panel_title(axes, title)
            layer_axis(axes, numbers.last_layer + 1)
            axes.set(ylim=(0, 100), yticks=range(0, 101, 25))
            axes.tick_params(axis="y", labelleft=column == 0)
            if column == 0:
                axes.set_ylabel("Attention mass (%)")
        group_legend(drawing, foot.height * 72 + 3, _COLOUR)
        foot.draw(drawing)
        pyplot.close(drawing)
    values = tuple(numbers.value(each) for each in shown)
    return Figure("attention", paper_labels.ATTENTION, values, drawing, COLUMNS)
