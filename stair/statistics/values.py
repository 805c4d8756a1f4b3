"""One reported number with its keys: a row of a tidy table."""

from dataclasses import dataclass

from stair.statistics.grid import Gap


@dataclass(frozen=True, slots=True)
class Value:
    """A number at full precision, or the gap in its place. Empty keys mean "over all" or "does not apply"."""

    model: str
    benchmark: str
    condition: str
    turn: str
    """`T1` to `T4`, or `T2-T4`"""
    group: str
    metric: str
    value: float | int | Gap
    unit: str
    artifact: str = ""
    """The part of the paper that prints it, where its table is of several."""
    low: float | None = None
    high: float | None = None
    """The 95% interval of a number that has one."""
