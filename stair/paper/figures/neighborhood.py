"""Figure neighborhood: cross-history overlap at the reported layer by neighborhood size, in two coordinates (appendix A.3)."""

from __future__ import annotations

from stair.paper.figures.diagram import place
from stair.paper.figures.figure import Figure
from stair.paper.figures.replay_panels import draw_interval, figure_of, group_legend, panel_title, panels, say_missing
from stair.paper.figures.style import GROUPS as STYLES
from stair.paper.figures.style import MATCHED, SHUFFLED, TEXT_WIDTH, THIN
from stair.paper.replay_numbers import GROUPS
from stair.paper.source import Source
from stair.stages.replay.analysis.statistics_table import Quantity

_TITLES = {"interaction": "Original coordinates", "whitened interaction": "Shared whitening"}
_QUANTITIES: dict[Quantity, str] = {"overlap": MATCHED, "shuffled overlap": SHUFFLED}
_HEIGHT = 104.0


def build(source: Source) -> Figure:
    """A panel for each coordinate system; the CSV has the raw and additive views too."""
    from matplotlib.patches import Patch

    numbers = source.replay
    layer, sizes = numbers.analysis.reported_layer, sorted(numbers.analysis.neighborhoods)
    curves = {
        (view, quantity, group): [numbers.at(quantity, view, group, layer=layer, k=k) for k in sizes]
        for view in ("raw", "additive", *_TITLES)
        for quantity in _QUANTITIES
        for group in GROUPS
    }
    shown = [each for curve in curves.values() for each in curve]
    with panels(58 + _HEIGHT, source, shown) as (drawing, foot):
        gap, left = 14.0, 32.0
        width = (TEXT_WIDTH * 72 - left - 6 - gap) / 2
        for column, (view, title) in enumerate(_TITLES.items()):
            axes = place(drawing, left + column * (width + gap), foot + 40, width, _HEIGHT)
            for quantity, colour in _QUANTITIES.items():
                for number, group in enumerate(GROUPS):
                    curve = zip(sizes, curves[view, quantity, group], strict=True)
                    points = [(size, each.value) for size, each in curve if each.value is not None]
                    style = dict(STYLES[number]) | {"markeredgewidth": THIN, "markersize": 3.6}
                    axes.plot([size for size, _ in points], [value for _, value in points], color=colour, **style)
                    for size, each in zip(sizes, curves[view, quantity, group], strict=True):
                        draw_interval(axes, size + (-0.008, 0.008)[number] * sizes[-1], each, colour)
            say_missing(axes, (curves[view, quantity, group] for quantity in _QUANTITIES for group in GROUPS))
            panel_title(axes, f"{title}, layer {layer}")
            axes.set(xlabel="Neighborhood size $k$", ylim=(0, 100), yticks=range(0, 101, 25), xticks=sizes)
            axes.set_xlim(sizes[0] - 0.1 * sizes[-1], sizes[-1] * 1.1)
            axes.tick_params(axis="y", labelleft=column == 0)
            if column == 0:
                axes.set_ylabel("Overlap (%)")
        names = ((MATCHED, "matched problems"), (SHUFFLED, "question-identity shuffle"))
        group_legend(drawing, foot + 3, more=[Patch(color=colour, label=name) for colour, name in names])
    return figure_of(source, shown, drawing)
