"""Snakemake's list of all jobs of a run, made once for all tests of a process."""

from __future__ import annotations

from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from stair.pipeline.job_list import ListedJob, list_jobs

ROOT = Path(__file__).parents[1]


@cache
def listed(run: str) -> tuple[ListedJob, ...]:
    """All jobs of a run of workflow/runs, each after those whose outputs it needs.

    Samples, limits and other settings of the same jobs do not change the list.
    """
    jobs = list_jobs(ROOT, {"run": run})
    maker = {file: number for number, job in enumerate(jobs) for file in job.outputs}
    before = {number: [maker[file] for file in job.inputs if file in maker] for number, job in enumerate(jobs)}
    return tuple(jobs[number] for number in TopologicalSorter(before).static_order())
