"""The seconds and tokens of a finished run, which replace a plan's assumptions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.pipeline.budget import measured_jobs
from stair.pipeline.job_list import ListedJob
from stair.pipeline.planning.jobs import planned_jobs
from stair.pipeline.planning.work import CostModel
from stair.pipeline.run import Run

Means = Mapping[tuple[str, str, str], float]


@dataclass(frozen=True)
class Calibration:
    """What a finished run measured."""

    factors: Mapping[tuple[str, str], float]
    """Measured over modelled seconds, by rule and model; the model is empty for all models of a rule."""
    means: Means
    """Mean tokens of a response, by model, benchmark or `training_pool`, and condition; empty for all conditions."""
    measured_seconds: Mapping[tuple[str, str], float]
    """By rule and model."""

    def factor(self, rule: str, model: str) -> float:
        """Measured over modelled seconds. An unmeasured model has its rule's factor, and an unmeasured rule has 1."""
        return self.factors.get((rule, model), self.factors.get((rule, ""), 1.0))

    def tokens(self, model: str, problems: str, condition: str) -> float | None:
        """Mean tokens of a response. An unmeasured condition has the others' mean; None for other models and benchmarks."""
        return self.means.get((model, problems, condition), self.means.get((model, problems, "")))


def calibrate(folder: Path, jobs: Sequence[ListedJob]) -> Calibration:
    """Reads work/timings, provenance.json and the configuration of a finished run; writes nothing.

    Args:
        folder: the run's folder.
        jobs: Snakemake's list of all its jobs.

    Raises:
        ValueError: the run has no timings or no provenance.json.
    """
    run = Run(load_run(folder), RunPaths(folder))
    means, seconds = _mean_tokens(run.paths.provenance), _measured_seconds(run)
    modelled: dict[tuple[str, str], float] = defaultdict(float)
    for job in planned_jobs(CostModel(run, Calibration({}, means, seconds).tokens), jobs):
        modelled[job.rule, job.model] += job.seconds
    known = [key for key in modelled if key in seconds]
    rules = {rule for rule, _ in known}
    factors = {(rule, ""): _ratio(seconds, modelled, [key for key in known if key[0] == rule]) for rule in rules}
    factors |= {key: _ratio(seconds, modelled, [key]) for key in known}
    return Calibration(factors, means, seconds)


def _ratio(seconds: Mapping[tuple[str, str], float], modelled: Mapping[tuple[str, str], float], keys: list) -> float:
    return sum(seconds[key] for key in keys) / sum(modelled[key] for key in keys)


def _measured_seconds(run: Run) -> dict[tuple[str, str], float]:
    """Measured seconds by rule and model; the model is empty for a job of no model."""
    timings, seconds = run.paths.work("timings"), defaultdict[tuple[str, str], float](float)
    for job in measured_jobs(run.paths):
        seconds[job.rule, job.name[0] if job.name and job.name[0] in run.config.models else ""] += job.seconds
    if not seconds:
        raise ValueError(f"{timings} has no measured job; --calibrate needs the folder of a finished run")
    return seconds


def _mean_tokens(path: Path) -> dict[tuple[str, str, str], float]:
    """The mean tokens of responses in a provenance.json; keys as in `Calibration.means`."""
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
