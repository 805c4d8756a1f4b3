"""Snakemake's list of all jobs of a start, made once for all tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from graphlib import TopologicalSorter
from hashlib import sha256
from pathlib import Path
from typing import Any

from stair.config.resolve import RESOLVED
from stair.pipeline.job_list import ListedJob, list_jobs
from tests.shared import made_once

ROOT = Path(__file__).parents[1]


@cache
def listed(run: str) -> tuple[ListedJob, ...]:
    """All jobs of a run of workflow/runs, each after those whose outputs it needs.

    Samples, limits and other settings of the same jobs do not change the list.
    """
    jobs = listed_once(ROOT, {"run": run})
    maker = {file: number for number, job in enumerate(jobs) for file in job.outputs}
    before = {number: [maker[file] for file in job.inputs if file in maker] for number, job in enumerate(jobs)}
    return tuple(jobs[number] for number in TopologicalSorter(before).static_order())


def listed_once(root: Path, overrides: Mapping[str, Any], target: str = "all") -> list[ListedJob]:
    """Replaces `list_jobs`. It gives all jobs of a start for any stage; a command takes those of its rule.

    Folders with one resolved configuration have one list: files are named relative to the run's folder.
    """
    resolved = Path(str(overrides["run"])) / RESOLVED
    start = json.dumps({**overrides, "run": resolved.read_text() if resolved.is_file() else overrides["run"]})

    def make(folder: Path) -> None:
        jobs = list_jobs(root, overrides)
        (folder / "jobs.json").write_text(json.dumps([asdict(job) for job in jobs]))

    folder = made_once(f"jobs-{sha256(start.encode()).hexdigest()[:16]}", make)
    return [ListedJob(**job) for job in json.loads((folder / "jobs.json").read_text())]
