"""The paper's effects, joint and by part, of every claim about response rows."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from stair.statistics.intervals import Interval

PAPER_EFFECTS = Path(__file__).with_name("paper_effects.csv")


@dataclass(frozen=True)
class PaperEffects:
    """A claim's effects on the paper's counts."""

    joint: Interval
    unit: str
    parts: tuple[float, ...]
    """In the order of `parts_of`."""


def paper_effects() -> dict[int, PaperEffects]:
    """By the claim's number. The estimates follow from the paper's printed counts.

    The paper prints no joint interval. `benchmarks/claims.py` estimates one from simulated rows (docs/comparison.md).
    """
    with open(PAPER_EFFECTS, encoding="utf-8", newline="") as file:
        return {
            int(row["claim"]): PaperEffects(
                Interval(*(float(row[name]) for name in ("effect", "low", "high"))),
                row["unit"],
                tuple(map(float, row["parts"].split())),
            )
            for row in csv.DictReader(file)
        }
