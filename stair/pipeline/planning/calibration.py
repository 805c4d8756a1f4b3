"""The seconds and tokens of a finished run, which replace a plan's assumptions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.pipeline.budget import measured_jobs
from stair.pipeline.job_list import ListedJob
from stair.pipeline.planning.planned_jobs import planned_jobs
from stair.pipeline.planning.work import Calibration, CostModel
from stair.pipeline.run import Run


def calibrate(folder: Path, jobs: Sequence[ListedJob]) -> Calibration:
    """Reads work/timings, provenance.json and the configuration of a finished run; `jobs` is Snakemake's list of all its jobs.

    Raises:
        ValueError: the run has no timings or no provenance.json.
    """
    run = Run(load_run(folder), RunPaths(folder))
    means = _mean_tokens(run.paths.provenance)
    measured, modelled = measured_seconds(run), defaultdict[tuple[str, str], float](float)
    if not measured:
        timings = run.paths.work("timings")
        raise ValueError(f"{timings} has no measured job; --calibrate needs the folder of a finished run")
    for job in planned_jobs(CostModel(run, Calibration(means=means)), jobs):
        modelled[job.rule, job.model] += job.work.seconds
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for rule, model in measured.keys() & modelled.keys():
        for key in {(rule, model), (rule, "")}:
            sums[key][0] += measured[rule, model]
            sums[key][1] += modelled[rule, model]
    return Calibration({key: seconds / planned for key, (seconds, planned) in sums.items()}, means)


def measured_seconds(run: Run) -> dict[tuple[str, str], float]:
    """The measured seconds of a run's jobs, by rule and model; the model is empty for the jobs of no model."""
    measured = defaultdict[tuple[str, str], float](float)
    for timed in measured_jobs(run.paths):
        model = timed.name[0] if timed.name and timed.name[0] in run.config.models else ""
        measured[timed.rule, model] += timed.seconds
    return measured


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
