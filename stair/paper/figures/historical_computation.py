"""Figure historical_computation: a crossed replay, attention and displacement, neighborhoods, and answer transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stair.paper.figures.diagram import CURRENT, FROZEN, Diagram, around, cell, place
from stair.paper.figures.figure import Figure
from stair.paper.figures.replay_panels import (
    WORDS,
    draw_layers,
    group_legend,
    layer_axis,
    legend,
    not_computable,
    panel_title,
    panels,
    say_missing,
)
from stair.paper.figures.style import (
    BODY,
    COLOURS,
    INK,
    MATCHED,
    SERIES,
    SHUFFLED,
    THIN,
    mark_layer,
)
from stair.paper.labels import Labels
from stair.paper.layout import rounded
from stair.paper.replay_numbers import COLUMNS, GROUPS, ReplayNumbers
from stair.paper.source import Source
from stair.paper.tables.table import gap_reasons
from stair.statistics.grid import Gap
from stair.statistics.transitions import transition_shares
from stair.statistics.values import Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from stair.stages.replay.analysis.statistics_table import Statistic

_LINES = SERIES[2]
_UP, _DOWN = COLOURS["stair"], COLOURS["native"]
_TOP, _PANEL = 116.0, 92.0
"""Points of the heights of A and D, and of the axes of B and C."""


def build(source: Source) -> Figure:
    """All four panels, of the attention and geometry of a replay."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    numbers, labels = source.replay, source.labels
    place_of_answers = (source.config.transitions.model, source.config.transitions.benchmark)
    transitions = transition_shares(source.responses, *place_of_answers)
    k, reported = numbers.analysis.neighborhoods[0], numbers.analysis.reported_layer
    sizes = {(of, group): numbers.at("size", of, group) for of in _SIZES for group in GROUPS}
    energies = {(part, group): numbers.at("energy", part, group, layer=reported) for part in _PARTS for group in GROUPS}
    masses = [numbers.curve("attention mass", "assistant", group) for group in GROUPS]
    norms = [numbers.curve("displacement norm", "", group) for group in GROUPS]
    matched, shuffled = (
        [numbers.curve(quantity, "interaction", group, k) for group in GROUPS]
        for quantity in ("overlap", "shuffled overlap")
    )
    curves = [*masses, *norms, *matched, *shuffled]
    shown = [*sizes.values(), *energies.values(), *(each for curve in curves for each in curve)]
    fractions = [_percent(energies["interaction", group], 2) for group in GROUPS]
    # `transitions` may name another model than `replay`.
    others = dict.fromkeys((each.model, each.benchmark) for each in transitions)
    others.pop((numbers.model, numbers.benchmark), None)
    notes = [
        f"Layer {reported} (dotted line): interaction energy fractions {fractions[0]} and {fractions[1]} for groups 1 and 2.",
        *(f"D: {labels.model(model)}, {labels.benchmark(benchmark)}." for model, benchmark in others),
        *(f"Not computed: {reason}." for reason in gap_reasons(transitions)),
    ]
    with panels(87 + _PANEL + _TOP, source, shown, notes) as (drawing, foot):
        lower = foot + 51
        upper = lower + _PANEL + 36
        _crossing(Diagram(drawing, upper, _TOP), numbers, labels, sizes)
        _energy(Diagram(drawing, upper, _TOP, left=196), numbers, energies)
        gap, left, width = 29.0, 20.0, 71.0
        *axes, answers = (place(drawing, left + number * (width + gap), lower, width, _PANEL) for number in range(4))
        _answers(answers, transitions)
        panel_title(answers, "Transitions\n(% of pairs)", "D")
        for axis, drawn, colour in zip(axes, (masses, norms, shuffled), (_LINES, _LINES, SHUFFLED), strict=True):
            for number, curve in enumerate(drawn):
                draw_layers(axis, curve, number, colour)
            layer_axis(axis, numbers.last_layer + 1)
            mark_layer(axis, reported)
        for number, curve in enumerate(matched):
            draw_layers(axes[2], curve, number, MATCHED)
        say_missing(axes[2], [*matched, *shuffled])
        panel_title(axes[0], "Mass on earlier\nassistants (%)", "B")
        panel_title(axes[1], "Displacement\nnorm (log scale)", "B")
        panel_title(axes[2], f"Overlap of {k}\nnearest (%)", "C")
        axes[0].set_ylim(0, None)
        axes[1].set_yscale("log")
        axes[1].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes[1].yaxis.set_major_formatter(FuncFormatter(lambda norm, _: f"{norm:g}"))
        axes[1].yaxis.set_minor_locator(NullLocator())
        axes[2].set(ylim=(0, 100), yticks=range(0, 101, 25))
        _legend(drawing, foot + 3)
    values = [*(numbers.value(each) for each in shown), *transitions]
    return Figure(source.exhibit, tuple(values), drawing, COLUMNS)


# ---------------------------------------------------------------- A

_SIZES = ("current problems", "histories", "source blocks")
_PARTS = ("mean", "problems", "histories", "interaction")
_CELL = 6.0


def _crossing(
    plane: Diagram, numbers: ReplayNumbers, labels: Labels, sizes: Mapping[tuple[str, str], Statistic]
) -> None:
    """Two groups that cross problems and histories."""
    top = plane.height
    plane.text(2, top - 7, "A", bold=True, size=BODY, align="left")
    title = f"Crossed-history replay, frozen {labels.model(numbers.model)}"
    plane.text(14, top - 7, title, size=BODY, align="left", room=260)
    for number, group in enumerate(GROUPS, start=1):
        x, middle, dashed = 14.0, top - 2 - 38 * number, number == 2
        for row in (-9, -3, 3, 9):
            grid = around(plane.row(x, middle + row, *[cell("", _CELL, _CELL, line=0.3)] * 8))
        plane.row(x - _CELL - 2, middle, cell("", _CELL, 4 * _CELL, fill=CURRENT, dashed=dashed))
        plane.row(x, middle + 17, cell("", grid.width, _CELL, fill=FROZEN, dashed=dashed))
        problems, histories = (sizes[of, group].value for of in _SIZES[:2])
        lines = (f"{problems:,.0f} current problems", f"× {histories:,.0f} {WORDS[numbers.depth]}-turn histories")
        for line, text in enumerate((f"Group {number}", *lines)):
            plane.text(x + grid.width + 5, middle + 15 - line * 10, text, bold=not line, align="left", room=92)
    plane.note(4, 5, "schematic grids; no current or source problem is in both groups")


def _energy(plane: Diagram, numbers: ReplayNumbers, energies: Mapping[tuple[str, str], Statistic]) -> None:
    """The parts of a displacement, and their energy at the reported layer."""
    x, top, width = 2.0, plane.height, 150.0
    plane.text(x, top - 24, "$d(x,H)=\\mu+a(x)+b(H)+e(x,H)$", align="left", room=width)
    plane.note(x, top - 35, "additive effects + interaction")
    plane.note(x, top - 46, f"share of energy, layer {numbers.analysis.reported_layer}:", colour=INK)
    for number, group in enumerate(GROUPS, start=1):
        y = top - 38 - number * 27
        parts = [part for part in (energies[name, group].value for name in _PARTS) if part is not None]
        if len(parts) < len(_PARTS):
            plane.note(x, y, f"group {number}: not computable")
            continue
        additive, interaction = sum(parts[:-1]), parts[-1]
        plane.row(
            *(x, y, cell("", width * additive / 100, 8, fill=FROZEN, dashed=number == 2)),
            cell("", width * interaction / 100, 8, fill=MATCHED, edge=MATCHED),
        )
        shares = f"group {number}: additive {rounded(additive)}%, interaction {rounded(interaction)}%"
        plane.note(x, y + 9, shares, colour=INK, room=width)


def _percent(statistic: Statistic, digits: int) -> str:
    return "–" if statistic.value is None else f"{rounded(statistic.value, digits)}%"


# ---------------------------------------------------------------- D


_DIRECTIONS = {"wrong to correct": _UP, "correct to wrong": _DOWN}


def _answers(axes: Axes, transitions: Sequence[Value]) -> None:
    """Bars of both directions, and diamonds at their sum."""
    turns = list(dict.fromkeys(each.turn for each in transitions))
    by_place = {(each.turn, each.metric): each.value for each in transitions}
    axes.axhline(0, color=INK, linewidth=THIN)
    known = [turn for turn in turns if not isinstance(by_place[turn, "net change"], Gap)]
    for name, colour in _DIRECTIONS.items():
        heights = [by_place[turn, f"{name} contribution"] for turn in known]
        axes.bar(
            *(known, heights, 0.62),  # type: ignore[arg-type]
            color=colour,
            edgecolor=INK,
            linewidth=THIN,
        )
    nets = [by_place[turn, "net change"] for turn in known]
    axes.plot(known, nets, linestyle="none", marker="D", markersize=3.6, color=INK, markerfacecolor="white")  # type: ignore[arg-type]
    if not known:
        not_computable(axes)
        return
    if not any(by_place[turn, f"{name} contribution"] for turn in known for name in _DIRECTIONS):
        axes.set_ylim(-1, 1)
    axes.margins(y=0.08)


def _legend(drawing: Drawing, y: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    overlaps = [
        Patch(color=MATCHED, label="matched problems"),
        Patch(color=SHUFFLED, label="question-identity shuffle"),
    ]
    answers = [Patch(facecolor=colour, edgecolor=INK, label=name) for name, colour in _DIRECTIONS.items()]
    net = Line2D([], [], linestyle="none", marker="D", color=INK, markerfacecolor="white", label="net change")
    group_legend(drawing, y + 10, more=overlaps)
    legend(drawing, y, handles=[*answers, net], handlelength=2.6)
