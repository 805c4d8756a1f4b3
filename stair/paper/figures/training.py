"""Figure training_<model>: the objective of every controller over its updates, and on the validation sessions."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from stair.paper.figures.figure import Figure, canvas
from stair.paper.figures.style import DASHES, LINE, MUTED, SERIES, THIN
from stair.paper.source import Source
from stair.statistics.values import Value

_HEIGHT = 151.2
_SMOOTH = 25
"""Updates of the running mean that is drawn, at most a fifth of all."""


def read_curve(path: Path) -> list[dict[str, float]]:
    """A curve's lines; what was not measured is left out."""
    with open(path, encoding="utf-8", newline="") as handle:
        return [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(handle)]


def build(source: Source) -> Figure:
    """Left the training objective, update by update and its running mean; right what it did to the validation sessions.

    A controller has the label of the condition with its key.
    """
    model, labels = source.exhibit.model, source.labels
    curves = {key: read_curve(path) for key, path in source.paths.curves(source.config, model).items()}
    values: list[Value] = []
    notes = ("Pale lines: each update; strong lines: their running mean.", *labels.notes)
    with canvas(_HEIGHT, notes, charts=_HEIGHT, wspace=0.06) as (drawing, _):
        left, right = drawing.subplots(1, 2)
        for number, (controller, curve) in enumerate(curves.items()):
            colour, dashes = SERIES[number % len(SERIES)], DASHES[number % len(DASHES)]
            for metric in ("loss", "cross_entropy", "kl", "gradient_norm", "validation_loss"):
                values += [
                    Value(model, "", controller, f"update {int(line['update'])}", "", metric, line[metric], "")
                    for line in curve
                    if metric in line
                ]
            steps, losses = _series(curve, "loss")
            left.plot(steps, losses, color=colour, alpha=0.25, linewidth=THIN)
            left.plot(steps, _running_mean(losses), color=colour, linestyle=dashes, label=labels.condition(controller))
            steps, losses = _series(curve, "validation_loss")
            change = [loss - losses[0] for loss in losses]
            right.plot(steps, change, color=colour, marker="o", markersize=2.5, linestyle=dashes, linewidth=LINE)
        left.set_title(f"{labels.model(model)}: training objective")
        left.set_ylabel("CE + KL, weighted mean")
        right.set_title("Validation, change since the start")
        right.axhline(0.0, color=MUTED, linewidth=THIN, zorder=0)
        for axis in (left, right):
            axis.set_xlabel("Updates")
            axis.xaxis.get_major_locator().set_params(integer=True)
        drawing.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4, handlelength=2.6)
    return Figure(source.exhibit, tuple(values), drawing)


def _series(curve: Sequence[Mapping[str, float]], metric: str) -> tuple[list[float], list[float]]:
    lines = [line for line in curve if metric in line]
    return [line["update"] for line in lines], [line[metric] for line in lines]


def _running_mean(values: Sequence[float]) -> list[float]:
    """Of the updates so far, at most `_SMOOTH` and at most a fifth of all."""
    width = max(1, min(_SMOOTH, len(values) // 5))
    return [sum(values[max(0, end - width) : end]) / min(width, end) for end in range(1, len(values) + 1)]
