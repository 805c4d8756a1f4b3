"""Measured costs of a run's rules, and the budgets in docs/tiny.md."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stair.config.paths import RunPaths
from stair.pipeline.jobs import JOBS
from stair.records.progress import read_progress
from stair.records.text_tables import markdown_table

START, END = "<!-- measured -->\n", "<!-- /measured -->\n"

_SLOWER, _SECONDS = 1.5, 10.0
"""A rule is over its budget when its jobs take this many times as long, and this many seconds longer."""


@dataclass(frozen=True)
class RuleCost:
    """The jobs of one rule: how many, the seconds of all their attempts, and the longest one's."""

    rule: str
    jobs: int
    seconds: float
    longest: float
    earlier_attempts: int = 0
    earlier_seconds: float = 0.0
    """The part of `seconds` in attempts that were cut short and resumed."""


class MeasuredJob(NamedTuple):
    rule: str
    name: tuple[str, ...]
    seconds: float
    """Those of the last attempt and of the earlier attempts that it resumed."""
    earlier_attempts: int
    earlier_seconds: float
    """They end with an attempt's last report in the progress file."""


def measured_jobs(paths: RunPaths) -> Iterator[MeasuredJob]:
    timings = paths.work("timings")
    counted: set[Path] = set()
    for path in sorted(timings.rglob("*.tsv")):
        rule, *name = path.relative_to(timings).with_suffix("").parts
        attempts, earlier = 0, 0.0
        if rule in JOBS and JOBS[rule].progress:
            # A shard has one progress file and, for each number of shards, one file of timings.
            stage = JOBS[rule].progress.partition("/")[0]
            job = re.sub(r"[-/](\d+)-of-\d+$", r"/\1", "/".join((stage, *name)))
            if (progress := paths.progress_of(job)) not in counted:
                if (last := read_progress(progress)) is not None:
                    attempts, earlier = last.earlier_attempts, last.earlier_seconds
                counted.add(progress)
        try:
            with path.open(newline="", encoding="utf-8") as file:
                seconds = [float(row["s"]) for row in csv.DictReader(file, delimiter="\t")]
        except (KeyError, TypeError, ValueError, csv.Error):
            continue  # damaged, which is as good as lost: nothing but these costs follows from it
        for last_seconds in seconds:
            yield MeasuredJob(rule, tuple(name), last_seconds + earlier, attempts, earlier)


def measured(paths: RunPaths) -> list[RuleCost]:
    """The costs of a run's rules, the costliest first. Raises ValueError without timings."""
    jobs: dict[str, list[MeasuredJob]] = defaultdict(list)
    for job in measured_jobs(paths):
        jobs[job.rule].append(job)
    if not jobs:
        raise ValueError(f"{paths.work('timings')} has no measured job; run the workflow first")
    costs = [
        RuleCost(
            rule,
            len(of_rule),
            sum(job.seconds for job in of_rule),
            max(job.seconds for job in of_rule),
            sum(job.earlier_attempts for job in of_rule),
            sum(job.earlier_seconds for job in of_rule),
        )
        for rule, of_rule in jobs.items()
    ]
    return sorted(costs, key=lambda cost: -cost.seconds)


def table(costs: Sequence[RuleCost]) -> str:
    total = RuleCost("all", sum(c.jobs for c in costs), sum(c.seconds for c in costs), max(c.longest for c in costs))
    head = ("rule", "jobs", "seconds, all jobs", "longest job")
    rows = [(cost.rule, str(cost.jobs), f"{cost.seconds:.0f}", f"{cost.longest:.1f}") for cost in (*costs, total)]
    return "\n".join(markdown_table(head, rows, right=(1, 2, 3))) + "\n"


def documented_seconds(text: str) -> dict[str, float]:
    """Seconds by rule, from a document with a `table`. Raises ValueError without one."""
    part = text.partition(START)[2].partition(END)[0]
    rows = re.findall(r"^\| (\w+) \| \d+ \| (\d+) \|", part, flags=re.MULTILINE)
    if not rows:
        raise ValueError(f"the document has no table between {START.strip()} and {END.strip()}")
    return {rule: float(seconds) for rule, seconds in rows}


def replace_table(text: str, costs: Sequence[RuleCost]) -> str:
    documented_seconds(text)
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table(costs)}\n{END}{rest.partition(END)[2]}"


def overruns(costs: Sequence[RuleCost], budget: dict[str, float]) -> list[str]:
    """A line for every rule, and for the sum, that is over its budget or has none."""
    total = RuleCost("all", 0, sum(cost.seconds for cost in costs), 0)
    lines = []
    for cost in (*costs, total):
        planned = budget.get(cost.rule)
        if planned is None:
            lines.append(f"{cost.rule} took {cost.seconds:.0f} s and has no budget")
        elif cost.seconds > max(_SLOWER * planned, planned + _SECONDS):
            lines.append(f"{cost.rule} took {cost.seconds:.0f} s, its budget is {planned:.0f} s")
    return lines
