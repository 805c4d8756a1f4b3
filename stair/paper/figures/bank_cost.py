"""Figure bank_cost_<model>: prefill time and peak memory against the bank's length, and a bank that grows by turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stair.paper.figures.figure import Figure, canvas
from stair.paper.figures.style import DASHES, INK, MUTED, RULE, SERIES, THIN
from stair.paper.labels import Labels
from stair.paper.source import Source
from stair.stages.runtime.repetitions import Line, median_over_histories, read_lines, selected
from stair.statistics.values import Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT = 158.4
_READS = {"fast-serial": "STAIR, fast read", "printed-serial": "STAIR, equations as printed"}
_METRICS = (("transfer", "transfer_s", 1e-3, "ms"), ("prefill", "prefill_s", 1e-3, "ms"),
            ("peak memory", "peak_bytes", 2.0**30, "GiB"), ("bank size", "kv_bytes", 2.0**20, "MiB"))  # fmt: skip


def build(source: Source) -> Figure:
    """Left prefill, in the middle peak memory, against the bank's length; right the growth, where it was measured."""
    model, labels = source.exhibit.model, source.labels
    lines = read_lines(source.paths.runtime(model))
    values = list(_values(model, lines))
    shape = lines[0].shape if lines else ""
    grown = selected(lines, part="growth")
    with canvas(_HEIGHT, _notes(lines, shape, labels), charts=_HEIGHT, wspace=0.06) as (drawing, _):
        axes = drawing.subplots(1, 3 if grown else 2)
        for axis, name, size in ((axes[0], "prefill_s", 1e-3), (axes[1], "peak_bytes", 2.0**30)):
            native = median_over_histories(selected(lines, part="curve", row="native"), name)
            if native is not None:
                axis.axhline(native / size, color=MUTED, linewidth=THIN, linestyle=DASHES[2], label="Native")
            for number, (variant, label) in enumerate(_READS.items()):
                points = _points(lines, variant, name, size)
                if points:
                    axis.plot(
                        *zip(*points, strict=True),
                        color=SERIES[number],
                        linestyle=DASHES[number],
                        marker="os"[number],
                        markersize=2.5,
                        label=label,
                    )
            axis.set_xscale("log", base=2)
            axis.set_xlabel("Bank (entries)")
            axis.xaxis.set_major_formatter(lambda entries, _: _short(entries))
        axes[0].set_title("T2 prefill (ms)")
        axes[1].set_title("Peak memory (GiB)")
        if _wide([value for value in values if value.metric == "prefill"]):
            axes[0].set_yscale("log")
        if grown:
            _draw_growth(axes[2], grown)
        handles, names = axes[0].get_legend_handles_labels()
        if handles:
            drawing.legend(handles, names, loc="outside upper center", ncols=3, handlelength=2.6)
        else:
            axes[0].text(0.5, 0.5, "not measured", transform=axes[0].transAxes, ha="center", color=INK)
    return Figure(source.exhibit, tuple(values), drawing)


def _values(model: str, lines: Sequence[Line]) -> list[Value]:
    values = []
    for part in ("curve", "growth"):
        here = selected(lines, part=part)
        for row, variant in dict.fromkeys((line.row, line.variant) for line in here):
            group = ", ".join(name for name in (here[0].shape.partition(":")[0], _READS.get(variant, "")) if name)
            for metric, column, size, unit in _METRICS:
                number = median_over_histories(selected(here, row=row, variant=variant), column)
                if number is not None:
                    values.append(Value(model, here[0].benchmark, row, "T2", group, metric, number / size, unit))
    return values


def _points(lines: Sequence[Line], variant: str, column: str, size: float) -> list[tuple[int, float]]:
    curve = selected(lines, part="curve", variant=variant)
    points = []
    for entries in sorted({line.entries for line in curve if line.entries is not None}):
        number = median_over_histories([line for line in curve if line.entries == entries], column)
        if number is not None:
            points.append((entries, number / size))
    return points


def _draw_growth(axis: Axes, grown: Sequence[Line]) -> None:
    """Prefill and transfer by turn."""
    turns = sorted({int(line.row.removeprefix("turn-")) for line in grown})
    for number, (label, column) in enumerate((("prefill", "prefill_s"), ("transfer", "transfer_s"))):
        series = [median_over_histories(selected(grown, row=f"turn-{turn}"), column) for turn in turns]
        times = [None if each is None else each * 1e3 for each in series]
        axis.plot(turns, times, color=(SERIES[0], RULE)[number], linestyle=DASHES[number], label=label)  # type: ignore[arg-type]
    axis.set_title("Growth by turns (ms)")
    most = max((line.entries or 0) for line in grown)
    axis.set_xlabel(f"Turns of {_short(most / len(turns))} entries")
    axis.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left")


def _wide(values: Sequence[Value]) -> bool:
    """Whether numbers span more than a factor of thirty."""
    numbers = [float(value.value) for value in values if isinstance(value.value, int | float) and value.value > 0]
    return bool(numbers) and max(numbers) > 30 * min(numbers)


def _short(entries: float) -> str:
    """Entries as axes print them: 16, 2K, 1.3K."""
    if entries < 1024:
        return f"{entries:g}"
    return f"{entries / 1024:.3g}K"


def _notes(lines: Sequence[Line], shape: str, labels: Labels) -> list[str]:
    notes = [f"{labels.model(lines[0].model)}, {shape}." if shape else ""] if lines else []
    notes += ["The bank holds random states; its transfer comes before the prefill and is not in it."]
    if any(line.memory == "resident" for line in lines):
        notes += ["Measured on a CPU; memory is the resident memory of the whole process."]
    notes += sorted({f"Not drawn: {line.gap}." for line in lines if line.gap and line.part in ("", "curve", "growth")})[
        :3
    ]
    return [note for note in (*notes, labels.note) if note]
