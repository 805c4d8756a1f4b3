"""Every job of a run with its planned cost, and the wall time of all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stair.pipeline.job_list import ListedJob
from stair.pipeline.planning.work import CostModel
from stair.pipeline.resources import FETCH_RULES, resources
from stair.pipeline.stage_rules import STAGE_OF, STAGES

Factor = Callable[[str, str], float]
"""Measured over modelled seconds of a rule's jobs for a model."""


@dataclass(frozen=True)
class PlannedJob:
    """One Snakemake job."""

    rule: str
    stage: str
    model: str
    """Empty where the job is for no model."""
    seconds: float
    gpus: int
    host_mb: int
    gpu_bytes: float
    responses: float
    tokens: float
    disk_bytes: float
    after: tuple[int, ...]
    """Places, in the list of jobs, of those that come before."""


def planned_jobs(
    costs: CostModel, jobs: Iterable[ListedJob], factor: Factor = lambda rule, model: 1.0
) -> list[PlannedJob]:
    """Snakemake's jobs with their costs, in the order of the stages. Downloads are left out."""
    listed = sorted((job for job in jobs if job.rule not in FETCH_RULES), key=_place)
    maker = {file: number for number, job in enumerate(listed) for file in job.outputs}
    return [_planned(costs, job, maker, factor) for job in listed]


def _place(job: ListedJob) -> tuple[int, tuple[str, ...], str]:
    """Snakemake lists its jobs in another order every time."""
    return list(STAGES).index(STAGE_OF[job.rule]), tuple(job.wildcards.values()), job.rule


def _planned(costs: CostModel, job: ListedJob, maker: Mapping[str, int], factor: Factor) -> PlannedJob:
    model = job.wildcards.get("model", "")
    work, need = costs.work(job.rule, job.wildcards), resources(costs.run, job.rule, job.wildcards)
    return PlannedJob(
        job.rule,
        STAGE_OF[job.rule],
        model,
        work.seconds * factor(job.rule, model),
        need.gpus,
        need.mem_mb,
        work.gpu_bytes if need.gpus else 0.0,
        work.responses,
        work.tokens,
        work.disk_bytes,
        tuple(sorted({maker[file] for file in job.inputs if file in maker})),
    )


def longest_chain(jobs: Sequence[PlannedJob]) -> float:
    """Seconds with workers without limit."""
    return wall_seconds(jobs, sum(job.gpus for job in jobs))


def wall_seconds(jobs: Sequence[PlannedJob], gpus: int) -> float:
    """Seconds with so many GPUs, each job started as soon as it can be, in the order of the list; CPUs without limit.

    A job that asks for more GPUs than there are takes them all.
    """
    waiting = [len(job.after) for job in jobs]
    later: list[list[int]] = [[] for _ in jobs]
    for number, job in enumerate(jobs):
        for before in job.after:
            later[before].append(number)
    ready = [number for number, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    running: list[tuple[float, int]] = []
    free, now = gpus, 0.0
    while ready or running:
        delayed = []
        while ready:
            number = heapq.heappop(ready)
            asked = min(jobs[number].gpus, gpus)
            if asked > free:
                delayed.append(number)
                continue
            free -= asked
            heapq.heappush(running, (now + jobs[number].seconds, number))
        ready = delayed
        now, number = heapq.heappop(running)
        free += min(jobs[number].gpus, gpus)
        for each in later[number]:
            waiting[each] -= 1
            if not waiting[each]:
                heapq.heappush(ready, each)
        heapq.heapify(ready)
    return now
