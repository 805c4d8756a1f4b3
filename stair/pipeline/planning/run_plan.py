"""The plan of a run: costs by stage and model, and wall times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.pipeline.inputs import evaluated
from stair.pipeline.job_list import ListedJob
from stair.pipeline.jobs import STAGES
from stair.pipeline.planning.planned_jobs import PlannedJob, longest_chain, planned_jobs, wall_seconds
from stair.pipeline.planning.work import Calibration, CostModel
from stair.pipeline.run import Run
from stair.records.progress import duration

_HOUR = 3600.0


@dataclass(frozen=True)
class Line:
    """The jobs of a stage and model."""

    stage: str
    model: str
    jobs: int
    job_seconds: float
    gpu_hours: float
    tokens: float
    disk_gb: float
    host_gib: float
    gpu_gib: float


@dataclass(frozen=True)
class Plan:
    lines: tuple[Line, ...]
    total: Line
    longest_chain_hours: float
    wall_hours: float
    gpus: int
    unknown_models: tuple[str, ...]
    """Models whose shape is neither fetched nor published here."""


def make_plan(
    config: Config,
    jobs: Sequence[ListedJob],
    *,
    calibration: Calibration | None = None,
    gpus: int = 1,
) -> Plan:
    """The plan of a configuration and of Snakemake's list of all its jobs. Writes nothing."""
    run = Run(config, RunPaths.of(config))
    planned = planned_jobs(CostModel(run, calibration or Calibration()), jobs)
    groups = {(stage, model): list[PlannedJob]() for stage in STAGES for model in ("", *config.models)}
    for job in planned:
        groups[job.stage, job.model].append(job)
    return Plan(
        lines=tuple(_line(*key, group) for key, group in groups.items() if group),
        total=_line("all", "", planned),
        longest_chain_hours=longest_chain(planned) / _HOUR,
        wall_hours=wall_seconds(planned, gpus) / _HOUR,
        gpus=gpus,
        unknown_models=tuple(model for model in config.models if not run.shape(model).known),
    )


def _line(stage: str, model: str, jobs: Sequence[PlannedJob]) -> Line:
    return Line(
        stage,
        model,
        len(jobs),
        sum(job.work.seconds for job in jobs),
        sum(job.work.seconds * job.gpus for job in jobs) / _HOUR,
        sum(job.work.tokens for job in jobs),
        sum(job.work.disk_bytes for job in jobs) / 1e9,
        max(job.host_mb for job in jobs) / 2**10,
        max(job.work.gpu_bytes if job.gpus else 0.0 for job in jobs) / 2**30,
    )


def cost_lines(plan: Plan) -> list[str]:
    """The costs by stage and model, and the wall times."""
    head = ("stage", "model", "jobs", "job time", "GPU-hours", "tokens", "disk GB", "host GiB", "GPU GiB")
    rows = [head, *(_cells(line) for line in (*plan.lines, plan.total))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        sized = list(zip(row, widths, strict=True))
        cells = [*(cell.ljust(width) for cell, width in sized[:2]), *(cell.rjust(width) for cell, width in sized[2:])]
        lines.append("  ".join(cells).rstrip())
    lines += ["", f"Longest chain of jobs: {duration(plan.longest_chain_hours * _HOUR)}."]
    if plan.total.gpu_hours:
        unit = "GPU" if plan.gpus == 1 else "GPUs"
        lines.append(f"With {plan.gpus} {unit}: {duration(plan.wall_hours * _HOUR)}.")
    unknown = "shape unknown before fetch; assumed to have 8 billion parameters."
    return lines + [f"{model}: {unknown}" for model in plan.unknown_models]


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.stage,
        line.model,
        str(line.jobs),
        duration(line.job_seconds),
        f"{line.gpu_hours:,.1f}" if line.gpu_hours else "",
        f"{line.tokens / 1e6:,.2f}M" if line.tokens else "",
        f"{line.disk_gb:,.2f}" if line.disk_gb else "",
        f"{line.host_gib:.1f}",
        f"{line.gpu_gib:.0f}" if line.gpu_gib else "",
    )


def disk_bytes(config: Config) -> dict[str, int]:
    """Bytes of a configuration's replayed states, and of its responses with their work logs."""
    run = Run(config, RunPaths.of(config))
    costs = CostModel(run)
    jobs = [("rollout_shard", {"model": model}) for model in config.models if not config.only_measures]
    for rule, study in (("evaluation_shard", run), ("controls_shard", run.shared_t1)):
        jobs += [(rule, place._asdict()) for place in evaluated(study.config)]
    replays = [("replay_shard", {"model": model}) for model in (config.replay.models if config.replay else ())]
    return {
        name: round(sum(costs.work(*job).disk_bytes for job in listed))
        for name, listed in (("replayed states", replays), ("responses", jobs))
    }


def undivided_gpu_bytes(config: Config) -> dict[tuple[str, ...], float]:
    """GPU bytes of trainings and replays that are still to be done, by output and name: a session or batch cannot be halved."""
    run = Run(config, RunPaths.of(config))
    costs, needed = CostModel(run), dict[tuple[str, ...], float]()
    for key in config.controllers:
        for model in config.trained(key):
            if not all(file.exists() for file in run.paths.controller_files(config, model, key)):
                wildcards = {"model": model, "controller": key}
                needed["controller", model, key] = costs.work("train_controller", wildcards).gpu_bytes
    for model in config.replay.models if config.replay else ():
        if not run.paths.replay_cells(model).exists():
            needed["replay", model] = costs.work("replay_shard", {"model": model}).gpu_bytes
    return needed
