"""The paper's joint effect of every claim about response rows."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from stair.statistics.intervals import Interval

PAPER_EFFECTS = Path(__file__).with_name("paper_effects.csv")


@dataclass(frozen=True)
class PaperEffect:
    """A joint effect with the interval of another set of such problems."""

    interval: Interval
    unit: str


def paper_effects() -> dict[int, PaperEffect]:
    """By the claim's number. The estimates follow from the paper's printed counts.

    The paper prints no joint interval. `benchmarks/claims.py` estimates one from simulated rows (docs/comparison.md).
    """
    with open(PAPER_EFFECTS, encoding="utf-8", newline="") as file:
        return {
            int(row["claim"]): PaperEffect(
                Interval(*(float(row[name]) for name in ("effect", "low", "high"))), row["unit"]
            )
            for row in csv.DictReader(file)
        }
