"""Every job of a run with its planned cost, and the wall time of all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stair.graph.output_kind import OutputKind
from stair.graph.outputs import OUTPUTS
from stair.graph.resources import resources
from stair.graph.run import Run
from stair.planning.work import CostModel

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


def planned_jobs(costs: CostModel, factor: Factor = lambda rule, model: 1.0) -> list[PlannedJob]:
    """The jobs in an order in which each comes after those that it needs."""
    run, jobs = costs.run, list[PlannedJob]()
    maker: dict[Path, int] = {}
    preflight: dict[str, int] = {}
    for output in OUTPUTS.values():
        for name in output.jobs(run):
            names = output.values(*name)
            model = names.get("model", "")
            inputs = {file for group in output.made_from(run, *name).values() for file in group}
            before = {maker[file] for file in inputs if file in maker}
            if output.uses_model and model in preflight:
                before.add(preflight[model])
            rule = _rule(run, output.name, names)
            if output.shards is not None:
                shard = _planned(costs, output, name, output.shards.rule, before, factor)
                first = len(jobs)
                jobs += [shard] * output.shards.count(run, *name)
                before |= set(range(first, len(jobs)))
            jobs.append(_planned(costs, output, name, rule, before, factor, seals=output.shards is not None))
            last = len(jobs) - 1
            maker.update(dict.fromkeys(output.files(run, *name), last))
            if output.name == "preflight":
                preflight[model] = last
    return jobs


def _planned(
    costs: CostModel,
    output: OutputKind,
    name: tuple[str, ...],
    rule: str,
    after: set[int],
    factor: Factor,
    *,
    seals: bool = False,
) -> PlannedJob:
    """One job of an output: a shard, the seal, or the only job."""
    model = output.values(*name).get("model", "")
    work = costs.work(output, *name, seals=seals)
    asked = resources(costs.run, output, *name, seals=seals)
    return PlannedJob(
        rule,
        output.target or "data",
        model,
        work.seconds * factor(rule, model),
        asked.gpus,
        asked.mem_mb,
        work.gpu_bytes if asked.gpus else 0.0,
        work.responses,
        work.tokens,
        work.disk_bytes,
        tuple(sorted(after)),
    )


def _rule(run: Run, output: str, names: dict[str, str]) -> str:
    """The rule that makes an output; three kinds of controllers have rules of their own."""
    if output != "controller":
        return OUTPUTS[output].rules[0]
    kind = run.config.controllers[names["controller"]].kind
    return {"lora": "train_lora", "lora_stair": "train_lora_stair"}.get(kind, "train_controller")


def longest_chain(jobs: list[PlannedJob]) -> float:
    """Seconds with workers without limit."""
    ends: list[float] = []
    for job in jobs:
        ends.append(job.seconds + max((ends[number] for number in job.after), default=0.0))
    return max(ends, default=0.0)


def wall_seconds(jobs: list[PlannedJob], gpus: int) -> float:
    """Seconds with so many GPUs, each job started as soon as it can be, in the order of the table; CPUs without limit.

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
