"""`runtime/<model>.csv`: a line for each repetition, and the numbers that follow from it. Imports no torch."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from stair.records.files import write_text
from stair.records.text_tables import csv_table


@dataclass(frozen=True, kw_only=True)
class Line:
    """One repetition, or a gap in its place. Seconds, bytes, entries and tokens; None where nothing was measured.

    Attributes:
        part, history, row, variant, entries, bank_entries: see `study_units.Unit`; a gap of the whole study has an empty part.
        shape: the untrained model's name; empty for a trained one.
        memory: what the peak counts: `allocated` tensors of a GPU, or the `resident` memory of the process.
    """

    part: str = ""
    model: str
    benchmark: str
    history: str = ""
    row: str = ""
    variant: str = ""
    repetition: int | None = None
    entries: int | None = None
    bank_entries: int | None = None
    prompt_tokens: int | None = None
    controlled_tokens: int | None = None
    readout_norm: float | None = None
    tokens: int | None = None
    kv_bytes: int | None = None
    transfer_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    total_s: float | None = None
    construction_s: float | None = None
    peak_bytes: int | None = None
    memory: str = ""
    shape: str
    engine: str
    attention: str
    dtype: str
    device: str
    gap: str = ""


_KINDS = {field.name: str(field.type).partition(" ")[0] for field in fields(Line)}
_READ: Mapping[str, Any] = {"str": str, "int": int, "float": float}


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """Write lines at full precision; None is an empty cell."""
    write_text(path, csv_table(tuple(_KINDS), ([getattr(line, name) for name in _KINDS] for line in lines)))


def read_lines(path: Path) -> list[Line]:
    """Reads what `write_lines` wrote. Raises ValueError if the file is absent or has other columns."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist; run: snakemake runtime")
    with open(path, encoding="utf-8", newline="") as handle:
        rows = csv.DictReader(handle)
        if list(rows.fieldnames or ()) != list(_KINDS):
            raise ValueError(
                f"{path} does not have the columns {', '.join(_KINDS)}; delete it and run: snakemake runtime"
            )
        return [Line(**{name: _value(kind, row[name]) for name, kind in _KINDS.items()}) for row in rows]


def _value(kind: str, text: str) -> Any:
    return None if kind != "str" and text == "" else _READ[kind](text)


def history_medians(lines: Iterable[Line], column: str) -> dict[str, float]:
    """Return the median over repetitions of each history, by its name; lines without a number are left out."""
    values: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        if (value := getattr(line, column)) is not None:
            values[line.history].append(float(value))
    return {history: median(each) for history, each in values.items()}


def median_over_histories(lines: Iterable[Line], column: str) -> float | None:
    """Return the median over histories of each history's median over repetitions; None without a number."""
    medians = history_medians(lines, column)
    return median(medians.values()) if medians else None


def paired_increases(lines: Iterable[Line], base: Iterable[Line], column: str) -> list[float]:
    """Return the difference of each history's medians; empty unless all histories are paired."""
    ours, theirs = history_medians(lines, column), history_medians(base, column)
    return [value - theirs[history] for history, value in ours.items()] if ours.keys() == theirs.keys() else []


def selected(lines: Sequence[Line], **values: str) -> list[Line]:
    """Return the measured lines with these values."""
    return [
        line for line in lines if not line.gap and all(getattr(line, name) == value for name, value in values.items())
    ]
