"""Figure overview: a session, Native and STAIR in it, and Avg@4 without history, with it, and with STAIR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from stair.core import TURNS
from stair.paper.exhibits import MAIN as SHOWN
from stair.paper.figures.diagram import BANK, CURRENT, FROZEN, Diagram, around, cell, count, table_row
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
from stair.paper.paper_labels import printed_at
from stair.paper.source import Source
from stair.paper.tables.table import benchmark_title, notes, score
from stair.statistics import context_sizes
from stair.statistics.grid import Gap, Responses
from stair.statistics.interval_tables import turn_intervals
from stair.statistics.metrics import MEAN, REFERENCE
from stair.statistics.values import Value

_LATER = tuple(f"T{turn}" for turn in range(2, TURNS + 1))
_LAST = _LATER[-1]
_EARLIER = f"T1–T{TURNS - 1}"
_ROW = 108.0
"""Points of a row of bar charts."""


def build(source: Source) -> Figure:
    """Panels (a) to (c) say what the conditions are; (d) has bars by benchmark, a chart for each model.

    Bars show Vanilla at T1, the others over T2 to T4.
    """
    responses, labels, models = source.responses, source.labels, source.config.overview.models
    values, known = [], {}
    for size in source.sizes:
        if _SHOWN_SIZES.get(size.condition) == size.metric and size.model in models and size.turn in _LATER:
            values.append(size)
            known[size.model, size.condition, size.turn, size.metric] = size.value
    bars = list(_bars(responses, models))
    values += bars
    shown = [benchmark for model in models for benchmark in responses.benchmarks(model)]
    charts = _ROW * -(-len(models) // 2)
    top = _HEADER + 133 + table_row() * (len(models) + 1)
    absent = [labels.model(model) for model in source.config.models if model not in models]
    below = (
        "Vertical lines: 95% intervals over problems.",
        *([f"Not drawn: {', '.join(absent)} (in {printed_at('tab:continuous-summary')})."] if absent else []),
        *notes(labels, responses, bars, shown),
    )
    with canvas(charts + top, below, charts, h_pad=0.03, w_pad=0.03) as (drawing, foot):
        session, native, stair = (Diagram(drawing, foot + charts, top, left) for left in (0.0, 136.0, 270.0))
        _session(session)
        _condition(native, "b", "native", known, labels, models)
        _condition(stair, "c", "stair", known, labels, models)
        _legend(Diagram(drawing, foot + charts, _HEADER), f"Avg@{responses.samples}", labels)
        _charts(drawing, bars, responses, labels, models)
    return Figure(source.exhibit, tuple(values), drawing)


# ---------------------------------------------------------------- (a) to (c)

_SHOWN_SIZES = {"native": context_sizes.PROMPT, "stair": context_sizes.BANK}
_WIDTH = 122.0
_HEADER = 18.0
"""Points of the line above the bars."""


def _session(plane: Diagram) -> None:
    """The turns of a session from top to bottom; the last problem is new."""
    top = plane.height
    plane.title("a", "A session")
    for turn in range(1, TURNS + 1):
        y, last = top - 8.5 - turn * 20, turn == TURNS
        plane.text(2, y, f"T{turn}", align="left", bold=last)
        style = {"fill": CURRENT, "line": THICK, "bold": True} if last else {}
        answer = cell("?", 60, 15, dashed=True) if last else cell("reasoning, answer", 60, 15, fill=FROZEN)
        plane.row(16, y, cell(f"Problem {turn}", 42, 15, **style), 6, answer, line=THIN)
    for line, text in enumerate(
        (
            f"{_EARLIER}: earlier problems and responses",
            "(of thinking models without thinking)",
            f"{_LAST}: a new, independent problem",
        )
    ):
        plane.note(2, top - 113 - 8 * line, text, room=_WIDTH)


def _condition(
    plane: Diagram, letter: str, condition: str, sizes: Mapping[Any, Any], labels: Labels, models: Sequence[str]
) -> None:
    """What a condition reads at the last turn, from the visible text below to the answer above."""
    width, top, green = _WIDTH / (TURNS + 1), plane.height - 26, COLOURS["stair"]
    plane.title(letter, f"{labels.condition(condition)} at {_LAST}")
    prefill, decode = plane.row(
        *(2, top - 36, cell("prefill", TURNS * width - 2, fill=FROZEN), 4),
        cell("decode", width - 2, fill=FROZEN, size=TINY),
        line=THIN,
    )
    turns = [cell(f"T{turn}", width, 14) for turn in range(1, TURNS)]
    text = around(plane.row(2, top - 68, *turns, cell(_LAST, width, 14, fill=CURRENT, bold=True)))
    (answer,) = plane.row(decode.x, top, cell("answer", decode.width, 14, size=TINY, dashed=True))
    plane.arrow(text, prefill)
    plane.arrow(decode, answer)
    plane.note(2, text.y - 6, "visible conversation, processed anew", room=_WIDTH)
    plane.note(5, text.y + 22.5, "frozen weights")
    if condition == "stair":
        entries = (cell(f"T{turn}", width * 0.75, 14, fill=BANK, size=TINY) for turn in range(1, TURNS))
        bank = around(plane.row(23, top, *entries))
        plane.note(2, top, "K/V\nbank", colour=INK)
        plane.arrow(bank, prefill, text="difference of two\nreads, prefill only", colour=green, line=THICK)
    else:
        plane.note(prefill.middle[0], top, "no bank: history is read\nas text alone", align="center")
    metric = _SHOWN_SIZES[condition]
    head = ("Bank entries (median)" if condition == "stair" else "Prompt tokens (median)", *_LATER)
    rows = [(labels.model(m), *(_tokens(sizes.get((m, condition, turn, metric))) for turn in _LATER)) for m in models]
    plane.table(2, text.y - 16, _WIDTH, [head, *rows])


def _tokens(value: float | None) -> str:
    """A number of tokens; `126.8K` from 100,000 on, which would not fit its column."""
    return count(value) if value is None or value < 100_000 else f"{value / 1000:,.1f}K"


# ---------------------------------------------------------------- (d)

_LABEL: dict[str, Any] = {"rotation": 90, "fontsize": TINY, "ha": "center", "va": "bottom"}


def _bars(responses: Responses, models: Sequence[str]) -> Iterable[Value]:
    metric = f"Avg@{responses.samples}"
    for model in models:
        for condition in SHOWN:
            turn = "T1" if condition == REFERENCE else MEAN
            for benchmark in responses.benchmarks(model):
                place = {"model": model, "benchmark": benchmark, "condition": condition, "turn": turn}
                yield score(responses, metric=metric, **place)


def _legend(plane: Diagram, metric: str, labels: Labels) -> None:
    plane.title("d", f"{metric} of the run")
    turns = {condition: "T1" if condition == REFERENCE else f"mean of {_LATER[0]}–{_LAST}" for condition in SHOWN}
    x = 136.0
    for condition, turn in turns.items():
        text = f"{labels.condition(condition)} ({turn})"
        plane.key(x, 11, COLOURS[condition], text)
        x += text_width(text, SMALL) + 24


def _charts(drawing: Any, bars: Sequence[Value], responses: Responses, labels: Labels, models: Sequence[str]) -> None:
    """The bars, two models a row."""
    columns = min(2, len(models))
    grid = drawing.add_gridspec(-(-len(models) // 2), columns)
    intervals = {
        (row.model, row.condition, row.benchmark): row
        for row in turn_intervals(responses)
        if row.metric == f"Avg@{responses.samples}" and row.turn == ("T1" if row.condition == REFERENCE else MEAN)
    }
    heights = {(bar.model, bar.condition, bar.benchmark): bar.value for bar in bars}
    for chart, model in enumerate(models):
        axis = drawing.add_subplot(grid[chart // 2, chart % 2])
        benchmarks = responses.benchmarks(model)
        for offset, condition in enumerate(SHOWN):
            shown = [heights[model, condition, benchmark] for benchmark in benchmarks]
            tops = [float("nan") if isinstance(value, Gap) else value for value in shown]
            positions = [index + 0.28 * (offset - 1) for index in range(len(benchmarks))]
            axis.bar(
                positions,
                tops,
                0.26,
                color=COLOURS[condition],
                edgecolor=INK,
                linewidth=THIN,
                label=labels.condition(condition),
            )
            for x, benchmark, top in zip(positions, benchmarks, tops, strict=True):
                if isinstance(heights[model, condition, benchmark], Gap):
                    continue
                interval = intervals[model, condition, benchmark]
                high = interval.high if isfinite(interval.high) else top
                if high > top or interval.low < top:
                    axis.plot([x, x], [max(interval.low, 0.0), high], color=INK, linewidth=THIN)
                axis.annotate(rounded(top, 1), (x, high), (0, 2), textcoords="offset points", **_LABEL)
        axis.set_title(labels.model(model))
        axis.set_xticks(
            range(len(benchmarks)),
            [benchmark_title(labels, name).replace(" ", "\n", 1) for name in benchmarks],
            fontsize=SMALL,
        )
        axis.tick_params(axis="x", length=0)
        axis.set(ylim=(0, 126), yticks=range(0, 101, 25), xlim=(-0.55, len(benchmarks) - 0.45))
        axis.spines["left"].set_bounds(0, 100)
        if chart % 2 == 0:
            axis.set_ylabel(f"Avg@{responses.samples} (%)")
        else:
            axis.tick_params(axis="y", labelleft=False)
