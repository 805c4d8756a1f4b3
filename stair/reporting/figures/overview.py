"""Figure overview, panel (d): Avg@4 without history, with it, and with STAIR."""

from __future__ import annotations

from collections.abc import Sequence

from stair.reporting import paper_labels
from stair.reporting.figures.figure import COLOURS, STYLE, Figure
from stair.reporting.labels import Labels
from stair.reporting.layout import rounded
from stair.reporting.tables.table import REFERENCE, SHOWN, benchmark_title, by_place, notes
from stair.statistics.grid import Gap, Responses
from stair.statistics.metrics import MEAN, turn_metrics
from stair.statistics.values import Value


def build(responses: Responses, labels: Labels, models: Sequence[str]) -> Figure:
    """One panel for each model, bars by benchmark: Vanilla at T1, the others over T2 to T4."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    metric = f"Avg@{responses.samples}"
    numbers = by_place(turn_metrics(responses))
    values: list[Value] = []
    with pyplot.rc_context(STYLE):
        widths = [max(1, len(responses.benchmarks(model))) for model in models]
        drawing, axes = pyplot.subplots(
            1, len(models), figsize=(0.9 + 1.25 * sum(widths), 2.5), width_ratios=widths, sharey=True, squeeze=False
        )
        for axis, model in zip(axes[0], models, strict=True):
            benchmarks = responses.benchmarks(model)
            for offset, condition in enumerate(SHOWN):
                turn = "T1" if condition == REFERENCE else MEAN
                heights = []
                for benchmark in benchmarks:
                    place = (model, benchmark, condition, turn, metric)
                    value = numbers.get(place, Gap(f"{model}, {benchmark}, {condition}: no responses"))
                    values.append(Value(model, benchmark, condition, turn, "", metric, value, "%"))
                    heights.append(float("nan") if isinstance(value, Gap) else value)
                positions = [number + 0.27 * (offset - 1) for number in range(len(benchmarks))]
                bars = axis.bar(positions, heights, 0.25, color=COLOURS[condition], label=labels.condition(condition))
                axis.bar_label(bars, [_height(height) for height in heights], fontsize=5.5, padding=1)
            axis.set_title(labels.model(model))
            axis.set_xticks(
                range(len(benchmarks)), [benchmark_title(labels, b).replace(" ", "\n", 1) for b in benchmarks]
            )
            axis.tick_params(axis="x", length=0)
            axis.set_ylim(0, 100)
        axes[0][0].set_ylabel(f"{metric} (%)")
        handles, names = axes[0][0].get_legend_handles_labels()
        drawing.legend(handles, names, loc="upper center", ncols=len(names), frameon=False, bbox_to_anchor=(0.5, 1.07))
        shown = [benchmark for model in models for benchmark in responses.benchmarks(model)]
        drawing.text(0.01, -0.02, "\n".join(notes(labels, responses, values, shown)), fontsize=5.5, va="top", wrap=True)
        pyplot.close(drawing)
    return Figure("overview", paper_labels.OVERVIEW, tuple(values), drawing)


def _height(value: float) -> str:
    return "" if value != value else rounded(value, 1)
