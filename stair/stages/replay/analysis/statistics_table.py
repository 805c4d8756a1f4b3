"""One number of the analysis with its keys, and the table of such numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stair.records.schemas import REPLAY_STATISTICS
from stair.records.tables import read_table, write_table
from stair.stages.replay.analysis.block_intervals import Ends

Quantity = Literal[
    "size",
    "attention mass",
    "displacement norm",
    "total energy",
    "energy",
    "overlap",
    "shuffled overlap",
    "base R2",
    "incremental R2",
]


@dataclass(frozen=True)
class Statistic:
    """A number, or the reason for its absence."""

    group: str
    """`group 1`, or `fit group 1, test group 2`."""
    quantity: Quantity
    of: str
    """Source category, view, part or feature; empty where the quantity has none."""
    value: float | None
    unit: str = ""
    layer: int | None = None
    k: int | None = None
    ends: Ends | None = None
    """The interval of a number that the text gives or compares."""
    gap: str | None = None
    """Why there is no value."""

    def __post_init__(self) -> None:
        assert (self.value is None) == (self.gap is not None)


def write_statistics(path: Path, depth: int, statistics: Iterable[Statistic]) -> int:
    """Writes `REPLAY_STATISTICS`; returns the number of rows."""

    def row(each: Statistic) -> dict[str, Any]:
        columns = vars(each) | (each.ends or Ends(None, None, None))._asdict() | {"depth": depth}
        del columns["ends"]
        return columns

    return write_table(path, REPLAY_STATISTICS, map(row, statistics))


def read_statistics(path: Path) -> Iterator[Statistic]:
    """Each number of a file.

    Raises:
        ValueError: the file is absent or has other columns.
    """
    for row in read_table(path, REPLAY_STATISTICS):
        del row["depth"]
        ends = Ends(row.pop("low"), row.pop("high"), row.pop("method"))
        yield Statistic(**row, ends=None if ends.method is None else ends)
