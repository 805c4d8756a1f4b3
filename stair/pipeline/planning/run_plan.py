"""The plan of a run: costs by stage and model, wall times, and the claims that it can decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError
from stair.config.site import Site
from stair.pipeline.inputs import evaluated
from stair.pipeline.job_list import ListedJob
from stair.pipeline.planning.calibration import Calibration
from stair.pipeline.planning.decidable import Decidable, decidable
from stair.pipeline.planning.jobs import PlannedJob, longest_chain, planned_jobs, wall_seconds
from stair.pipeline.planning.work import CostModel
from stair.pipeline.resources import check_fits
from stair.pipeline.run import Run
from stair.pipeline.stage_rules import STAGES

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
    """What a run will cost."""

    run: str
    lines: tuple[Line, ...]
    total: Line
    longest_chain_hours: float
    wall_hours: float
    gpus: int
    gpu_hour: float | None
    unfit: str | None
    """Why the site cannot run one of the jobs; None without a site, or if all fit."""
    claims: tuple[Decidable, ...]
    unknown_models: tuple[str, ...]
    """Models whose shape is neither fetched nor published here."""

    @property
    def money(self) -> float | None:
        """At the given rate."""
        return None if self.gpu_hour is None else self.total.gpu_hours * self.gpu_hour

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        claims = [
            {
                "claim": each.claim.number,
                "title": each.claim.title,
                "lacking": each.lacking or None,
                "needs": list(each.needs),
                "parts": [asdict(part) for part in each.parts],
            }
            for each in self.claims
        ]
        return {
            "run": self.run,
            "lines": [asdict(line) for line in self.lines],
            "total": asdict(self.total),
            "longest_chain_hours": self.longest_chain_hours,
            "wall_hours": self.wall_hours,
            "gpus": self.gpus,
            "money": self.money,
            "unfit": self.unfit,
            "claims": claims,
            "unknown_models": list(self.unknown_models),
        }


def make_plan(
    config: Config,
    jobs: Sequence[ListedJob],
    *,
    calibration: Calibration | None = None,
    gpus: int = 1,
    gpu_hour: float | None = None,
    site: Site | None = None,
) -> Plan:
    """The plan of a configuration and of Snakemake's list of all its jobs. Reads small files and writes nothing."""
    run = Run(config, RunPaths.of(config))
    unfit = None
    if site is not None:
        try:
            check_fits(run, site, jobs)
        except ConfigError as error:
            unfit = str(error)
    learned = calibration or Calibration({}, {}, {})
    costs = CostModel(run, learned.tokens)
    planned = planned_jobs(costs, jobs, learned.factor)
    groups = {(stage, model): list[PlannedJob]() for stage in STAGES for model in ("", *config.models)}
    for job in planned:
        groups[job.stage, job.model].append(job)
    return Plan(
        config.run,
        tuple(_line(stage, model, group) for (stage, model), group in groups.items() if group),
        _line("all", "", planned),
        longest_chain(planned) / _HOUR,
        wall_seconds(planned, gpus) / _HOUR,
        gpus,
        gpu_hour,
        unfit,
        tuple(decidable(run)),
        tuple(model for model in config.models if not costs.shape(model).known),
    )


def response_bytes(config: Config) -> int:
    """Bytes of a configuration's responses and their work logs."""
    run = Run(config, RunPaths.of(config))
    costs = CostModel(run)
    jobs = [("rollout_shard", {"model": model}) for model in config.models if not config.only_measures]
    for rule, study in (("evaluation_shard", run), ("controls_shard", run.shared_t1)):
        jobs += [(rule, place._asdict()) for place in evaluated(study.config)]
    return round(sum(costs.work(rule, wildcards).disk_bytes for rule, wildcards in jobs))


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


def _line(stage: str, model: str, jobs: Sequence[PlannedJob]) -> Line:
    return Line(
        stage,
        model,
        len(jobs),
        sum(job.seconds for job in jobs),
        sum(job.seconds * job.gpus for job in jobs) / _HOUR,
        sum(job.tokens for job in jobs),
        sum(job.disk_bytes for job in jobs) / 1e9,
        max(job.host_mb for job in jobs) / 2**10,
        max(job.gpu_bytes for job in jobs) / 2**30,
    )
