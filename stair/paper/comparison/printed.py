"""The paper's printed values, and where each is printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stair.paper.comparison.kinds import Kind, kind_of
from stair.paper.tidy import read_tidy

PAPER_VALUES = Path(__file__).parents[1] / "paper_values.csv"


class Place(NamedTuple):
    """Where a number is printed, in the paper's spelling. Empty keys mean "over all" or "does not apply"."""

    artifact: str
    model: str
    benchmark: str
    condition: str
    turn: str
    group: str
    metric: str
    unit: str


@dataclass(frozen=True)
class Printed:
    """A printed value."""

    place: Place
    text: str
    """The printed text."""

    @property
    def kind(self) -> Kind:
        """Which comparison applies."""
        return kind_of(self.place.artifact, self.place.metric, self.place.unit)

    @property
    def value(self) -> float:
        """The printed number."""
        return float(self.text)

    @property
    def rounding(self) -> float:
        """The last printed place; 0 for a whole number, which is exact."""
        digits = len(self.text.partition(".")[2])
        return 10.0**-digits if digits else 0.0


def printed_values() -> list[Printed]:
    """Every value of `paper_values.csv`, in its order."""
    return [Printed(Place(**{key: row[key] for key in Place._fields}), row["value"]) for row in read_tidy(PAPER_VALUES)]
