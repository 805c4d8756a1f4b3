"""What a finished run says about seconds and tokens."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.graph.run import Run
from stair.planning.jobs import planned_jobs
from stair.planning.work import CostModel

Means = Mapping[tuple[str, str, str], float]


@dataclass(frozen=True)
class Calibration:
    """Measured over modelled seconds, and mean tokens of responses."""

    factors: Mapping[tuple[str, str], float]
    """By rule and model; the model is empty for all models of a rule."""
    means: Means
    """By model, benchmark or `training_pool`, and condition; empty for all conditions."""
    measured_seconds: Mapping[tuple[str, str], float]

    def factor(self, rule: str, model: str) -> float:
        """For a model that was not measured, the rule's mean; 1 for a rule that was not."""
        return self.factors.get((rule, model), self.factors.get((rule, ""), 1.0))

    def tokens(self, model: str, problems: str, condition: str) -> float | None:
        """For a condition that was not measured, the mean of the others; None for another model or benchmark."""
        return self.means.get((model, problems, condition), self.means.get((model, problems, "")))


def calibrate(folder: Path) -> Calibration:
    """Reads work/timings, provenance.json and the configuration of a finished run; writes nothing.

    Raises:
        ValueError: the run has no timings or no provenance.json.
    """
    run = Run(load_run(folder), RunPaths(folder))
    means, seconds = _means(folder), _seconds(folder)
    bare = Calibration({}, means, seconds)
    modelled: dict[tuple[str, str], float] = defaultdict(float)
    for job in planned_jobs(CostModel(run, bare.tokens)):
        modelled[job.rule, job.model] += job.seconds
    known = [key for key in modelled if key in seconds]
    rules = {rule for rule, _ in known}
    factors = {(rule, ""): _ratio(seconds, modelled, [key for key in known if key[0] == rule]) for rule in rules}
    factors |= {key: _ratio(seconds, modelled, [key]) for key in known}
    return Calibration(factors, means, seconds)


def _ratio(seconds: Mapping[tuple[str, str], float], modelled: Mapping[tuple[str, str], float], keys: list) -> float:
    return sum(seconds[key] for key in keys) / sum(modelled[key] for key in keys)


def _seconds(folder: Path) -> dict[tuple[str, str], float]:
    """Measured seconds by rule and model."""
    timings, found = folder / "work" / "timings", defaultdict[tuple[str, str], float](float)
    models = load_run(folder).models
    for path in timings.rglob("*.tsv"):
        rule, *rest = path.relative_to(timings).with_suffix("").parts
        model = next((part for part in rest[:1] if part in models), "")
        with open(path, encoding="utf-8", newline="") as file:
            found[rule, model] += sum(float(row["s"]) for row in csv.DictReader(file, delimiter="\t"))
    if not found:
        raise ValueError(f"{timings} has no measured job; --calibrate needs the folder of a finished run")
    return found


def _means(folder: Path) -> dict[tuple[str, str, str], float]:
    path = folder / "provenance.json"
    try:
        generated = json.loads(path.read_text(encoding="utf-8"))["costs"]["generated"]
    except (OSError, ValueError, KeyError):
        raise ValueError(f"{path} has no token counts; --calibrate needs a finished run (stair provenance)") from None
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, counts in generated.items():
        kind, *rest = name.split("/")
        if kind == "rollouts":
            keys = [(rest[0], "training_pool", "")]
        elif kind == "responses":
            keys = [(rest[0], rest[1], ""), (rest[0], rest[1], rest[-1])]
        else:
            continue
        for key in keys:
            sums[key][0] += counts["response_tokens"]
            sums[key][1] += counts["responses"]
    return {key: tokens / responses for key, (tokens, responses) in sums.items() if responses}
