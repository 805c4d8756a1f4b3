"""Snakemake's list of all jobs of a run, made once for all tests of a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from stair.pipeline.job_list import ListedJob, list_jobs

ROOT = Path(__file__).parents[1]


@cache
def listed(run: str) -> tuple[ListedJob, ...]:
    """All jobs of a run of workflow/runs. Samples, limits and other settings of the same jobs do not change the list."""
    return tuple(list_jobs(ROOT, {"run": run}, fresh=True))


def job(rule: str, inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = (), **wildcards: str) -> ListedJob:
    """A job as Snakemake lists it."""
    return ListedJob(rule, wildcards, inputs, outputs, (), "")
