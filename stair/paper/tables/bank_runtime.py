"""Table bank_runtime: sizes, times and peak memory of bank prefixes (appendix C.4), and the numbers of the text on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import NamedTuple

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.runtime import Variant
from stair.paper import paper_labels
from stair.paper.labels import Labels
from stair.paper.layout import rounded
from stair.paper.source import Source
from stair.paper.tables.table import Block, Column, Table, comparison_title, gap_reasons, in_words, place_of
from stair.paper.tables.table import Line as TableLine
from stair.stages.runtime.repetitions import Line, median_over_histories, paired_increases, read_lines, selected
from stair.statistics.grid import Gap
from stair.statistics.intervals import median_interval
from stair.statistics.values import Value

NATIVE, FULL = "native", "full"
_MIB, _GIB = 2.0**20, 2.0**30
_ABOUT = "≈ "

VARIANTS: dict[Variant, str] = {
    "fast-serial": "fast, serial",
    "fast-overlapped": "fast, overlapped",
    "printed-serial": "printed, serial",
    "printed-overlapped": "printed, overlapped",
}


class _Column(NamedTuple):
    """A column: the paper's metric and unit, the measured column, what a unit is of it, the digits and the heading."""

    metric: str
    unit: str
    measured: str
    size: float
    digits: int
    heading: str


_COLUMNS = (
    _Column("bank size", "MiB", "kv_bytes", _MIB, 0, "K/V"),
    _Column("transfer", "ms", "transfer_s", 1e-3, 0, "Transfer"),
    _Column("prefill", "ms", "prefill_s", 1e-3, 0, "Prefill"),
    _Column("decode", "s", "decode_s", 1.0, 2, "Decode"),
    _Column("peak memory", "GiB", "peak_bytes", _GIB, 2, "Peak"),
    _Column("total", "s", "total_s", 1.0, 2, "Total"),
)


def build(source: Source) -> Table:
    """The rows of every measured model and variant; the first variant's values have no group, as the paper's."""
    study, labels = source.config.runtime, source.labels
    assert study is not None, "the graph asks for no runtime table then"
    values: list[Value] = []
    blocks: list[Block] = []
    lines: list[Line] = []
    several = len(study.models) > 1
    for model in study.models:
        measured = read_lines(source.paths.runtime(model))
        lines += measured
        subject = _subject(measured, model, labels)
        for variant in study.variants:
            block = _values(measured, model, variant, main=variant == study.variants[0])
            values += block
            title = f"{subject}: {VARIANTS[variant]}" if several else VARIANTS[variant].capitalize()
            places = {value.condition: place_of(value) for value in block}
            blocks.append((title, [_line(name, place, _small(measured)) for name, place in places.items()]))
    columns = [Column("", over="Bank", align="l")]
    columns += [Column(f"({column.unit})", (column.metric,), over=column.heading) for column in _COLUMNS]
    caption, below = _caption(lines, "" if several else f" of {subject}"), tuple(_notes(lines, values, labels))
    return Table.of(source.exhibit, caption, columns, blocks, values, below)


def _line(name: str, place: Mapping[str, str], small: bool) -> TableLine:
    # A tiny model's sizes and times would all be zero.
    texts: dict[str, Callable[..., str]] = {
        column.metric: partial(rounded, digits=column.digits + 2 * small) for column in _COLUMNS
    }
    if name == "Native":
        texts |= {"bank size": partial(rounded, digits=0), "transfer": lambda number: _ABOUT + rounded(number, 0)}
    if name == "Full":
        about = texts["bank size"]
        texts["bank size"] = lambda number: _ABOUT + about(number)
    return TableLine((name,), place, shaded="stairrow" if name == "Full" else None, texts=texts)


def in_text(config: Config, paths: RunPaths) -> Iterator[Value]:
    """The numbers of appendix C.4's text: increases over Native, construction of the bank, its length."""
    assert config.runtime is not None
    for model in config.runtime.models:
        lines = read_lines(paths.runtime(model))
        for variant in config.runtime.variants:
            group = _group(lines, variant, main=variant == config.runtime.variants[0])
            full, native = _row(lines, FULL, variant), _row(lines, NATIVE, variant)
            for column in (_COLUMNS[2], _COLUMNS[5], _COLUMNS[4]):
                metric = f"paired median {column.metric} increase, full bank over Native"
                increases = [each / column.size for each in paired_increases(full, native, column.measured)]
                found = median_interval(increases) if increases else None
                number = _reported(found.estimate if found else None, 1.0, lines, full)
                value = Value(model, "", "", "", group, metric, number, column.unit, paper_labels.RUNTIME_TEXT)
                if found and not isinstance(number, Gap) and isfinite(found.low):
                    value = replace(value, low=found.low, high=found.high)
                yield value
        main = _group(lines, config.runtime.variants[0], main=True)
        built = selected(lines, part="construction")
        for metric, measured, size, unit in (
            ("median exact-token replay to construct the bank", "construction_s", 1.0, "s"),
            ("median full bank length", "bank_entries", 1e3, "K tokens"),
        ):
            number = _reported(median_over_histories(built, measured), size, lines, built)
            yield Value(model, "", "", "", main, metric, number, unit, paper_labels.RUNTIME_TEXT)


def row_label(row: str) -> str:
    """A row's label: Native, 2K, 1,261, Full."""
    if row in (NATIVE, FULL):
        return row.capitalize()
    entries = int(row.removeprefix("prefix-"))
    return f"{entries // 1024}K" if entries % 1024 == 0 else f"{entries:,}"


def shape_of(lines: Sequence[Line]) -> str:
    """What stands in place of a trained model, without its sizes; empty for one."""
    return lines[0].shape.partition(":")[0] if lines else ""


def _group(lines: Sequence[Line], variant: Variant, *, main: bool) -> str:
    """The group of a variant's values: none for the one beside the paper's, but for what is not a trained model."""
    return ", ".join(part for part in (shape_of(lines), "" if main else VARIANTS[variant]) if part)


def _row(lines: Sequence[Line], row: str, variant: str) -> list[Line]:
    """The repetitions of a row, gaps too; Native has no variant."""
    wanted = ("row", row, "" if row == NATIVE else variant)
    return [line for line in lines if (line.part, line.row, line.variant) == wanted]


def _names(lines: Sequence[Line]) -> list[str]:
    """The rows in their order."""
    names = list(dict.fromkeys(line.row for line in lines if line.part == "row"))
    return names or [NATIVE, FULL]


def _reported(number: float | None, size: float, lines: Sequence[Line], row: Sequence[Line]) -> float | Gap:
    """A number in its unit, or the gap with the reason of the study's or the row's."""
    reasons = [line.gap for line in (*row, *(line for line in lines if not line.part)) if line.gap]
    if reasons:
        return Gap(reasons[0])
    return Gap("it was not measured") if number is None else number / size


def _values(lines: Sequence[Line], model: str, variant: Variant, *, main: bool) -> list[Value]:
    group = _group(lines, variant, main=main)
    benchmark = lines[0].benchmark if lines else ""
    values = []
    # Native reads nothing: it is the first variant's row, and no other's.
    for name in (name for name in _names(lines) if main or name != NATIVE):
        row = _row(lines, name, variant)
        for column in _COLUMNS:
            number = _reported(median_over_histories(row, column.measured), column.size, lines, row)
            if isinstance(number, Gap) and number.reason == "it was not measured":
                if column.measured == "transfer_s" and variant.endswith("overlapped"):
                    continue  # it is part of the prefill
                number = Gap(f"{column.metric} cannot be measured on this system")
            values.append(Value(model, benchmark, row_label(name), "T2", group, column.metric, number, column.unit))
    return values


def _small(lines: Sequence[Line]) -> bool:
    """Whether full banks are below 16 MiB, so that whole units would say nothing."""
    size = median_over_histories(selected(lines, part="row", row=FULL), "kv_bytes")
    return size is not None and size < 16 * _MIB


def _subject(lines: Sequence[Line], model: str, labels: Labels) -> str:
    if not shape_of(lines):
        return comparison_title(labels, model, lines[0].benchmark)
    return labels.printed_model(model) + (" (reduced)" if "reduced" in shape_of(lines) else "")


def _caption(lines: Sequence[Line], of: str) -> str:
    measured = [line for line in lines if line.part == "row"]
    by_model = {
        line.model: len({other.history for other in measured if other.model == line.model}) for line in measured
    }
    across = f" across {in_words(max(by_model.values()))} histories" if by_model else ""
    counts = {line.tokens for line in measured if line.tokens}
    tokens = f"{counts.pop():,}-token" if len(counts) == 1 else "fixed-length"
    return (
        f"Bank-size and fixed-workload costs{of}{across}. Transfer moves the bank to the device; total includes transfer, "
        f"prefill of the visible T2 prompt, and a {tokens} decode. Entries summarize each history before taking the median "
        "across histories."
    )


def _notes(lines: Sequence[Line], values: Sequence[Value], labels: Labels) -> Iterator[str]:
    yield from (f"{shape[0].upper()}{shape[1:]}." for shape in dict.fromkeys(line.shape for line in lines) if shape)
    yield "Fast is the read of the evaluation; printed is the paper's equations as they stand. Serial is transfer, then prefill."
    if any(line.variant.endswith("overlapped") for line in lines):
        yield "Overlapped: the transfer runs beside the first layers, so the prefill contains it."
    if any(line.memory == "resident" for line in lines):
        yield (
            "Measured on a CPU, whose seconds say nothing about the paper's GPU. The bank is copied within host memory, and peak "
            "is the resident memory of the whole process, not what an allocator gave out."
        )
    if devices := sorted({line.device for line in lines}):
        yield f"Device: {', '.join(devices)}."
    yield from (f"Not reported: {reason}." for reason in gap_reasons(values))
    yield from labels.notes
