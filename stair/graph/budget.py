"""Measured costs of a run's rules, and the budgets in docs/budget.md."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stair.records.markdown import markdown_table

START, END = "<!-- measured -->\n", "<!-- /measured -->\n"
"""The lines of the document around the table."""

_SLOWER, _SECONDS = 1.5, 10.0
"""A rule is over its budget when its jobs take this many times as long, and this many seconds longer."""


@dataclass(frozen=True)
class RuleCost:
    """The jobs of one rule: how many, their seconds, and the longest one's."""

    rule: str
    jobs: int
    seconds: float
    longest: float


def measured_jobs(timings: Path) -> Iterator[tuple[tuple[str, ...], float]]:
    """The seconds of every job that Snakemake measured, by the rule and the name of its file below `work/timings`."""
    for path in timings.rglob("*.tsv"):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                yield path.relative_to(timings).with_suffix("").parts, float(row["s"])


def measured(timings: Path) -> list[RuleCost]:
    """The costs that Snakemake measured, the costliest rule first.

    Raises:
        ValueError: the folder has no timings.
    """
    jobs: dict[str, list[float]] = defaultdict(list)
    for (rule, *_), seconds in measured_jobs(timings):
        jobs[rule].append(seconds)
    if not jobs:
        raise ValueError(f"{timings} has no measured job; run the workflow first")
    costs = [RuleCost(rule, len(seconds), sum(seconds), max(seconds)) for rule, seconds in jobs.items()]
    return sorted(costs, key=lambda cost: -cost.seconds)


def table(costs: Sequence[RuleCost]) -> str:
    """The costs as Markdown, with their sum."""
    total = RuleCost("all", sum(c.jobs for c in costs), sum(c.seconds for c in costs), max(c.longest for c in costs))
    head = ("rule", "jobs", "seconds, all jobs", "longest job")
    rows = [(cost.rule, str(cost.jobs), f"{cost.seconds:.0f}", f"{cost.longest:.1f}") for cost in (*costs, total)]
    return "\n".join(markdown_table(head, rows, right=(1, 2, 3))) + "\n"


def documented_seconds(text: str) -> dict[str, float]:
    """Seconds by rule, from a document with a `table` in it.

    Raises:
        ValueError: the document has no table.
    """
    part = text.partition(START)[2].partition(END)[0]
    rows = re.findall(r"^\| (\w+) \| \d+ \| (\d+) \|", part, flags=re.MULTILINE)
    if not rows:
        raise ValueError(f"the document has no table between {START.strip()} and {END.strip()}")
    return {rule: float(seconds) for rule, seconds in rows}


def replace_table(text: str, costs: Sequence[RuleCost]) -> str:
    """The document with a new table."""
    documented_seconds(text)
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table(costs)}\n{END}{rest.partition(END)[2]}"


def overruns(costs: Sequence[RuleCost], budget: dict[str, float]) -> list[str]:
    """A line for every rule, and for all, that takes clearly longer than its budget, or has none."""
    total = RuleCost("all", 0, sum(cost.seconds for cost in costs), 0)
    lines = []
    for cost in (*costs, total):
        planned = budget.get(cost.rule)
        if planned is None:
            lines.append(f"{cost.rule} took {cost.seconds:.0f} s and has no budget")
        elif cost.seconds > max(_SLOWER * planned, planned + _SECONDS):
            lines.append(f"{cost.rule} took {cost.seconds:.0f} s, its budget is {planned:.0f} s")
    return lines
