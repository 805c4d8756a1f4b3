"""Every job of a run with its planned cost, and the wall time of all of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stair.pipeline.job_list import ListedJob
from stair.pipeline.jobs import JOBS, STAGES
from stair.pipeline.planning.work import CostModel, Work
from stair.pipeline.resources import FETCH_RULES, resources


@dataclass(frozen=True)
class PlannedJob:
    rule: str
    stage: str
    model: str
    work: Work
    gpus: int
    host_mb: int
    after: frozenset[int]
    """Places, in the list of jobs, of those that come before."""


def planned_jobs(costs: CostModel, jobs: Iterable[ListedJob]) -> list[PlannedJob]:
    """Snakemake's jobs with their costs, in the order of the stages. Downloads are left out."""
    listed = sorted((job for job in jobs if job.rule not in FETCH_RULES), key=_place)
    maker = {file: number for number, job in enumerate(listed) for file in job.outputs}
    planned = []
    for job in listed:
        need, after = resources(costs.run, job.rule, job.wildcards), {maker.get(file) for file in job.inputs}
        model, work = job.wildcards.get("model", ""), costs.work(job.rule, job.wildcards)
        before = frozenset(number for number in after if number is not None)
        planned.append(PlannedJob(job.rule, JOBS[job.rule].stage, model, work, need.gpus, need.mem_mb, before))
    return planned


def _place(job: ListedJob) -> tuple[int, tuple[str, ...], str]:
    """Snakemake lists its jobs in another order every time."""
    return list(STAGES).index(JOBS[job.rule].stage), tuple(job.wildcards.values()), job.rule


def longest_chain(jobs: Sequence[PlannedJob]) -> float:
    """Seconds with workers without limit."""
    return wall_seconds(jobs, sum(job.gpus for job in jobs))


def wall_seconds(jobs: Sequence[PlannedJob], gpus: int) -> float:
    """Seconds with so many GPUs, each job started as soon as it can be, in the order of the list; CPUs without limit.

    A job that needs more GPUs than there are takes them all.
    """
    waiting = {number: set(job.after) for number, job in enumerate(jobs)}
    running: list[tuple[float, int]] = []
    free, now = gpus, 0.0
    while waiting or running:
        for number in [number for number, before in waiting.items() if not before]:
            if (asked := min(jobs[number].gpus, gpus)) <= free:
                free -= asked
                heapq.heappush(running, (now + jobs[number].work.seconds, number))
                del waiting[number]
        now, ended = heapq.heappop(running)
        free += min(jobs[ended].gpus, gpus)
        for before in waiting.values():
            before.discard(ended)
    return now
