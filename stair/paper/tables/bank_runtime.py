"""Table bank_runtime: sizes, times and peak memory of bank prefixes (appendix C.4), and the numbers of the text on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import NamedTuple, Self

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper import paper_labels
from stair.paper.labels import Labels
from stair.paper.layout import rounded
from stair.paper.source import Source
from stair.paper.tables.table import Block, Column, Line, Table, comparison_title, gap_reasons, in_words, place_of
from stair.statistics.grid import Gap
from stair.statistics.intervals import median_interval
from stair.statistics.values import Value

NATIVE, FULL, CONSTRUCTION = "native", "full", "construction"
_MIB, _GIB = 2.0**20, 2.0**30
_ABOUT = "≈ "


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


@dataclass(frozen=True)
class Repetitions:
    """One model's repetitions.

    Attributes:
        rows: those of runtime/MODEL.csv.
        benchmark: empty for random tokens.
        shape: says that the weights are random, without sizes; empty for a trained model.
        gap: why nothing is reported; None if enough histories were measured.
    """

    model: str
    rows: pd.DataFrame
    benchmark: str
    shape: str
    gap: Gap | None

    @classmethod
    def of(cls, config: Config, paths: RunPaths, model: str) -> Self:
        study = config.runtime
        assert study is not None, "the graph asks for no runtime table then"
        rows = pd.read_csv(paths.runtime(model), dtype={"shape": str}).fillna({"shape": ""})
        found = rows["history"].nunique()
        gap = None if found >= study.histories else Gap(
            f"{found} of the {study.histories} histories have a bank longer than {study.longer_than:,} entries; set "
            "runtime.histories or runtime.longer_than"
        )  # fmt: skip
        shape = str(rows["shape"].iloc[0]) if found else ""
        return cls(model, rows, study.benchmark if study.synthetic is None else "", shape.partition(":")[0], gap)

    def names(self) -> list[str]:
        """The table's rows in their order."""
        return [str(name) for name in self.rows["row"].unique() if name != CONSTRUCTION] or [NATIVE, FULL]

    def medians(self, row: str, column: str) -> pd.Series[float]:
        """The median over the repetitions of each history that has one."""
        return self.rows[self.rows["row"] == row].groupby("history")[column].median().dropna()

    def median(self, row: str, column: str, size: float, metric: str) -> float | Gap:
        """The median over histories, in units of `size`."""
        medians = self.medians(row, column)
        if self.gap is not None:
            return self.gap
        return float(medians.median()) / size if len(medians) else Gap(f"{metric} is measured on a GPU alone")


def build(source: Source) -> Table:
    """The rows of every measured model."""
    study, labels = source.config.runtime, source.labels
    assert study is not None, "the graph asks for no runtime table then"
    studies = [Repetitions.of(source.config, source.paths, model) for model in study.models]
    several = len(studies) > 1
    values: list[Value] = []
    blocks: list[Block] = []
    for each in studies:
        block = _values(each)
        values += block
        places = {value.condition: place_of(value) for value in block}
        title = _subject(each, labels) if several else ""
        blocks.append((title, [_line(name, place, _small(each)) for name, place in places.items()]))
    columns = [Column("", over="Bank", align="l")]
    columns += [Column(f"({column.unit})", (column.metric,), over=column.heading) for column in _COLUMNS]
    caption = _caption(studies, "" if several else f" of {_subject(studies[0], labels)}")
    return Table.of(source.exhibit, caption, columns, blocks, values, tuple(_notes(studies, values, labels)))


def _line(name: str, place: Mapping[str, str], small: bool) -> Line:
    # A tiny model's sizes and times would all be zero.
    texts: dict[str, Callable[..., str]] = {
        column.metric: partial(rounded, digits=column.digits + 2 * small) for column in _COLUMNS
    }
    if name == "Native":
        texts |= {"bank size": partial(rounded, digits=0), "transfer": lambda number: _ABOUT + rounded(number, 0)}
    if name == "Full":
        about = texts["bank size"]
        texts["bank size"] = lambda number: _ABOUT + about(number)
    return Line((name,), place, shaded="stairrow" if name == "Full" else None, texts=texts)


def in_text(config: Config, paths: RunPaths) -> Iterator[Value]:
    """The numbers of appendix C.4's text: increases over Native, construction of the bank, its length."""
    assert config.runtime is not None
    for model in config.runtime.models:
        study = Repetitions.of(config, paths, model)
        for column in (_COLUMNS[2], _COLUMNS[5], _COLUMNS[4]):
            metric = f"paired median {column.metric} increase, full bank over Native"
            value = Value(
                model, "", "", "", study.shape, metric, study.median(FULL, column.measured, column.size, column.metric),
                column.unit, paper_labels.RUNTIME_TEXT,
            )  # fmt: skip
            if not isinstance(value.value, Gap):
                increases = study.medians(FULL, column.measured) - study.medians(NATIVE, column.measured)
                found = median_interval([float(each) / column.size for each in increases])
                value = replace(value, value=found.estimate)
                if isfinite(found.low):
                    value = replace(value, low=found.low, high=found.high)
            yield value
        for metric, row, measured, size, unit in (
            ("median exact-token replay to construct the bank", CONSTRUCTION, "total_s", 1.0, "s"),
            ("median full bank length", FULL, "bank_entries", 1e3, "K tokens"),
        ):
            number = study.median(row, measured, size, metric)
            yield Value(model, "", "", "", study.shape, metric, number, unit, paper_labels.RUNTIME_TEXT)


def row_label(row: str) -> str:
    """A row's label: Native, 2K, 1,261, Full."""
    if row in (NATIVE, FULL):
        return row.capitalize()
    entries = int(row.removeprefix("prefix-"))
    return f"{entries // 1024}K" if entries % 1024 == 0 else f"{entries:,}"


def _values(study: Repetitions) -> list[Value]:
    return [
        Value(
            study.model, study.benchmark, row_label(name), "T2", study.shape, column.metric,
            study.median(name, column.measured, column.size, column.metric), column.unit,
        )
        for name in study.names()
        for column in _COLUMNS
    ]  # fmt: skip


def _small(study: Repetitions) -> bool:
    """Whether full banks are below 16 MiB, so that whole units would say nothing."""
    size = study.medians(FULL, "kv_bytes").median()
    return bool(size < 16 * _MIB)


def _subject(study: Repetitions, labels: Labels) -> str:
    if not study.shape:
        return comparison_title(labels, study.model, study.benchmark)
    return labels.printed_model(study.model) + (" (reduced)" if "reduced" in study.shape else "")


def _caption(studies: Sequence[Repetitions], of: str) -> str:
    histories = max(study.rows["history"].nunique() for study in studies)
    across = f" across {in_words(histories)} histories" if histories else ""
    counts = {int(count) for study in studies for count in study.rows["tokens"].dropna()}
    tokens = f"{counts.pop():,}-token" if len(counts) == 1 else "fixed-length"
    return (
        f"Bank-size and fixed-workload costs{of}{across}. Transfer moves the bank to the device; total includes transfer, "
        f"prefill of the visible T2 prompt, and a {tokens} decode. Entries summarize each history before taking the median "
        "across histories."
    )


def _notes(studies: Sequence[Repetitions], values: Sequence[Value], labels: Labels) -> Iterator[str]:
    rows = pd.concat([study.rows for study in studies])
    yield from (f"{shape[0].upper()}{shape[1:]}." for shape in rows["shape"].unique() if shape)
    if rows["peak_bytes"].isna().all() and len(rows):
        yield "Measured on a CPU, whose seconds say nothing about the paper's GPU. The bank is copied within host memory."
    if devices := sorted(rows["device"].unique()):
        yield f"Device: {', '.join(devices)}."
    yield from (f"Not reported: {reason}." for reason in gap_reasons(values))
    yield from labels.notes
