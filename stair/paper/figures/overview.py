"""Figure overview: a session, Native and STAIR in it, and Avg@4 without history, with it, and with STAIR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stair.core import TURNS
from stair.paper.figures.diagram import BANK, CURRENT, FROZEN, PLAIN, Diagram, count, table_row
from stair.paper.figures.figure import Figure, canvas
from stair.paper.figures.style import (
    COLOURS,
    INK,
    SMALL,
    THICK,
    THIN,
    TINY,
    text_width,
)
from stair.paper.labels import Labels
from stair.paper.layout import rounded
from stair.paper.table_inputs import MAIN as SHOWN
from stair.paper.tables.table import benchmark_title, notes, score
from stair.statistics import context_sizes
from stair.statistics.grid import Gap, Responses
from stair.statistics.metrics import MEAN, REFERENCE
from stair.statistics.values import Value

_LATER = tuple(f"T{turn}" for turn in range(2, TURNS + 1))
_LAST = _LATER[-1]
_EARLIER = f"T1–T{TURNS - 1}"
_ROW = 108.0
"""Points of a row of bar charts."""

Sizes = Mapping[tuple[str, str, str, str], float]
"""Tokens that a turn is given, by (model, condition, turn, metric)."""


def build(responses: Responses, sizes: Iterable[Value], labels: Labels, models: Sequence[str]) -> Figure:
    """Panels (a) to (c) say what the conditions are; (d) has bars by benchmark, a chart for each model.

    Bars show Vanilla at T1, the others over T2 to T4. `sizes`: as `stair.statistics.context_sizes` counts them.
    """
    values, known = [], {}
    for size in sizes:
        if (size.condition, size.metric) in _SHOWN_SIZES and size.model in models and size.turn in _LATER:
            values.append(size)
            known[size.model, size.condition, size.turn, size.metric] = size.value
    bars = list(_bars(responses, models))
    values += bars
    shown = [benchmark for model in models for benchmark in responses.benchmarks(model)]
    charts = _ROW * -(-len(models) // 2)
    top = _HEADER + 133 + table_row() * (len(models) + 1)
    with canvas(charts + top, notes(labels, responses, bars, shown), charts, h_pad=0.03, w_pad=0.03) as (drawing, foot):
        plane = Diagram(drawing, foot + charts, top)
        _legend(plane, f"Avg@{responses.samples}", labels)
        _session(plane, 2)
        _condition(plane, 138, "b", "native", known, labels, models)
        _condition(plane, 272, "c", "stair", known, labels, models)
        _charts(drawing, bars, responses, labels, models)
    return Figure("overview", tuple(values), drawing)


# ---------------------------------------------------------------- (a) to (c)

_SHOWN_SIZES = (("native", context_sizes.PROMPT), ("stair", context_sizes.BANK))
_WIDTH = 122.0
_HEADER = 18.0
"""Points of the line above the bars."""


def _session(plane: Diagram, x: float) -> None:
    """The turns of a session from top to bottom; the last problem is new."""
    top = plane.height
    plane.title(x, top - 6, "a", "A session")
    step, height = 20.0, 15.0
    for turn in range(1, TURNS + 1):
        y, last = top - 17 - turn * step + 1, turn == TURNS
        plane.text(x, y + height / 2, f"T{turn}", align="left", bold=last)
        plane.box(
            *(x + 14, y, 42, height, f"Problem {turn}"),
            fill=CURRENT if last else PLAIN,
            line=THICK if last else THIN,
            bold=last,
        )
        plane.arrow((x + 56, y + height / 2), (x + 62, y + height / 2), line=THIN)
        plane.box(
            *(x + 62, y, 60, height, "?" if last else "reasoning, answer"), fill=PLAIN if last else FROZEN, dashed=last
        )
    for line, text in enumerate(
        (
            f"{_EARLIER}: earlier problems, with visible",
            "reasoning and answers (as in Instruct)",
            f"{_LAST}: a new, independent problem",
        )
    ):
        plane.note(x, top - 113 - 8 * line, text, room=_WIDTH)


def _condition(
    plane: Diagram,
    x: float,
    letter: str,
    condition: str,
    sizes: Mapping[Any, Any],
    labels: Labels,
    models: Sequence[str],
) -> None:
    """What a condition reads at the last turn, from the visible text below to the answer above."""
    top, reads = plane.height, condition == "stair"
    plane.title(x, top - 6, letter, f"{labels.condition(condition)} at {_LAST}")
    text, model, upper = top - 101, top - 70, top - 34
    cell = _WIDTH / (TURNS + 1)
    for turn in range(1, TURNS + 1):
        last = turn == TURNS
        plane.box(
            *(x + (turn - 1) * cell, text, cell, 14, f"T{turn}"),
            fill=CURRENT if last else PLAIN,
            bold=last,
        )
    answer = x + TURNS * cell
    plane.note(x, text - 6, "visible conversation, processed anew", room=_WIDTH)
    plane.box(x, model, TURNS * cell - 2, 16, "prefill", fill=FROZEN)
    plane.box(answer + 2, model, cell - 2, 16, "decode", fill=FROZEN, size=TINY)
    middle = x + (TURNS * cell - 2) / 2
    plane.arrow((middle, text + 14), (middle, model))
    plane.arrow((answer - 2, model + 8), (answer + 2, model + 8), line=THIN)
    plane.arrow((answer + 2 + (cell - 2) / 2, model + 16), (answer + 2 + (cell - 2) / 2, upper + 1))
    plane.box(answer + 2, upper + 1, cell - 2, 14, "answer", size=TINY, dashed=True)
    plane.note(x + 3, text + 22.5, "weights fixed")
    if reads:
        wide = cell * 0.75
        for turn in range(1, TURNS):
            plane.box(x + 24 + (turn - 1) * wide, upper + 1, wide, 14, f"T{turn}", fill=BANK, size=TINY)
        plane.note(x, upper + 8, "K/V\nbank", colour=INK)
        plane.arrow((middle, upper + 1), (middle, model + 16), colour=COLOURS["stair"], line=THICK)
        plane.note(middle + 4, upper - 9, "changed read,\nprefill only", colour=COLOURS["stair"], room=44)
        what, metric = "Bank entries (median)", context_sizes.BANK
    else:
        plane.note(middle, upper + 8, "no bank: history is read\nas text alone", align="center")
        what, metric = "Prompt tokens (median)", context_sizes.PROMPT
    rows = [(labels.model(m), *(_tokens(sizes.get((m, condition, turn, metric))) for turn in _LATER)) for m in models]
    number = 19.0
    plane.table(x, text - 16, (_WIDTH - number * len(_LATER), *[number] * len(_LATER)), [(what, *_LATER), *rows])


def _tokens(value: float | None) -> str:
    """A number of tokens; `126.8K` from 100,000 on, which would not fit its column."""
    return count(value) if value is None or value < 100_000 else f"{value / 1000:,.1f}K"


# ---------------------------------------------------------------- (d)


def _bars(responses: Responses, models: Sequence[str]) -> Iterable[Value]:
    metric = f"Avg@{responses.samples}"
    for model in models:
        for condition in SHOWN:
            turn = "T1" if condition == REFERENCE else MEAN
            for benchmark in responses.benchmarks(model):
                place = {"model": model, "benchmark": benchmark, "condition": condition, "turn": turn}
                yield score(responses, metric=metric, **place)


def _legend(plane: Diagram, metric: str, labels: Labels) -> None:
    plane.title(2, 8, "d", f"{metric} of the run")
    turns = {condition: "T1" if condition == REFERENCE else f"mean of {_LATER[0]}–{_LAST}" for condition in SHOWN}
    x = 136.0
    for condition, turn in turns.items():
        text = f"{labels.condition(condition)} ({turn})"
        plane.box(x, 5, 9, 6, fill=COLOURS[condition])
        plane.text(x + 12, 8, text, align="left")
        x += text_width(text, SMALL) + 24


def _charts(drawing: Any, bars: Sequence[Value], responses: Responses, labels: Labels, models: Sequence[str]) -> None:
    """The bars, two models a row."""
    columns = min(2, len(models))
    grid = drawing.add_gridspec(-(-len(models) // 2), columns)
    heights = {(bar.model, bar.condition, bar.benchmark): bar.value for bar in bars}
    for number, model in enumerate(models):
        axis = drawing.add_subplot(grid[number // 2, number % 2])
        benchmarks = responses.benchmarks(model)
        for offset, condition in enumerate(SHOWN):
            shown = [heights[model, condition, benchmark] for benchmark in benchmarks]
            tops = [float("nan") if isinstance(value, Gap) else value for value in shown]
            positions = [number + 0.28 * (offset - 1) for number in range(len(benchmarks))]
            drawn = axis.bar(
                positions,
                tops,
                0.26,
                color=COLOURS[condition],
                edgecolor=INK,
                linewidth=THIN,
                label=labels.condition(condition),
            )
            axis.bar_label(drawn, [_height(value) for value in tops], fontsize=TINY, padding=1.5, rotation=90)
        axis.set_title(labels.model(model))
        axis.set_xticks(
            range(len(benchmarks)),
            [benchmark_title(labels, name).replace(" ", "\n", 1) for name in benchmarks],
            fontsize=SMALL,
        )
        axis.tick_params(axis="x", length=0)
        axis.set(ylim=(0, 118), yticks=range(0, 101, 25), xlim=(-0.55, len(benchmarks) - 0.45))
        axis.spines["left"].set_bounds(0, 100)
        if number % 2 == 0:
            axis.set_ylabel(f"Avg@{responses.samples} (%)")
        else:
            axis.tick_params(axis="y", labelleft=False)


def _height(value: float) -> str:
    return "" if value != value else rounded(value, 1)
