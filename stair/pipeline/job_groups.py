"""Small jobs on CPUs are submitted in groups, so that a scheduler sees hundreds of jobs instead of thousands.

Jobs on GPUs are submitted one by one, and so are seals: the shards of other conditions wait for Vanilla's seal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from stair.config.site import Partition, Site
from stair.pipeline.job_list import ListedJob
from stair.pipeline.resources import FETCH_RULES, Resources, resources
from stair.pipeline.run import Run
from stair.pipeline.stage_rules import STAGES

LARGEST = 12
"""Independent jobs, or chains of jobs, of a group."""
AT_A_TIME = 4
"""Jobs of a group that run side by side, each on one CPU."""


class _Group(NamedTuple):
    rules: tuple[str, ...]
    chained: bool = False
    """Whether the jobs of each rule wait for those of the rule before it."""
    per_model: bool = False
    """Whether the chains of the models are independent; else all jobs of a chained group are one component."""

    def members(self, jobs: Sequence[ListedJob]) -> list[ListedJob]:
        return [job for job in jobs if job.rule in self.rules]

    def components(self, members: Sequence[ListedJob]) -> int:
        if not self.chained:
            return len(members)
        return len({job.wildcards["model"] for job in members}) if self.per_model else 1

    def rounds(self, members: Sequence[ListedJob], size: int, side_by_side: int) -> int:
        """How often a group of so many components waits for a job."""
        if not self.chained:
            return -(-size // side_by_side)
        widths = Counter((job.rule, job.wildcards["model"] if self.per_model else "") for job in members)
        widest: dict[str, int] = {}
        for (rule, _), width in widths.items():
            widest[rule] = max(width, widest.get(rule, 0))
        return sum(-(-min(size, self.components(members)) * width // side_by_side) for width in widest.values())


GROUPS = {
    "data": _Group(("raw", "benchmark", "training_pool"), chained=True),
    "preflight": _Group(STAGES["preflight"], chained=True, per_model=True),
    "sessions": _Group(("evaluation_sessions",)),
    "scores": _Group(STAGES["scores"]),
    "statistics": _Group(("replay_statistics",)),
    "cards": _Group(("data_report", "data_card", "response_card", "check")),
    "reports": _Group((*STAGES["tables"], *STAGES["figures"])),
    "summary": _Group(("comparison", "claims", "provenance", "report"), chained=True),
}


def group_arguments(run: Run, site: Site, jobs: Sequence[ListedJob]) -> list[str]:
    """Snakemake's arguments that form the groups. Every group fits into its partition's memory and time."""
    sizes, side_by_side = _sizes(run, site, jobs)
    rules = (f"{rule}={name}" for name in sizes for rule in GROUPS[name].rules)
    return [
        *(("--groups", *rules) if sizes else ()),
        *(("--group-components", *(f"{name}={size}" for name, size in sizes.items())) if sizes else ()),
        # A group's jobs run side by side on so many cores, and it asks for the memory of so many. A limit of memory here
        # would lower the requests of all jobs, those on GPUs included.
        *("--cores", str(side_by_side)),
    ]


def submissions(run: Run, site: Site, jobs: Sequence[ListedJob]) -> int:
    """How many jobs a scheduler sees, if nothing fails."""
    sizes, _ = _sizes(run, site, jobs)
    groups = [(GROUPS[name], size) for name, size in sizes.items()]
    grouped = {rule for group, _ in groups for rule in group.rules}
    alone = sum(job.rule not in grouped and job.rule not in FETCH_RULES for job in jobs)
    return alone + sum(-(-group.components(group.members(jobs)) // size) for group, size in groups)


def _sizes(run: Run, site: Site, jobs: Sequence[ListedJob]) -> tuple[dict[str, int], int]:
    """Components of each group, and the jobs of a group that run side by side.

    A group that fits no partition is left out: its jobs are submitted one by one.
    """
    members = {name: found for name, group in GROUPS.items() if (found := group.members(jobs))}
    requests = {name: _largest(run, found) for name, found in members.items()}
    limits = {name: _partition(site, request) for name, request in requests.items()}
    # A second and a third attempt ask for twice and three times the memory.
    room = (limits[name].mem_mb // (3 * request.mem_mb) for name, request in requests.items())
    side_by_side = max(1, min([AT_A_TIME, *room]))
    sizes = {}
    for name, found in members.items():
        rounds = limits[name].minutes // requests[name].minutes
        fitting = (n for n in range(1, LARGEST + 1) if GROUPS[name].rounds(found, n, side_by_side) <= rounds)
        if size := max(fitting, default=0):
            sizes[name] = size
    return sizes, side_by_side


def _largest(run: Run, jobs: Sequence[ListedJob]) -> Resources:
    """A request that covers each of the jobs."""
    requests = [resources(run, job.rule, job.wildcards) for job in jobs]
    memory, minutes = max(each.mem_mb for each in requests), max(each.minutes for each in requests)
    return Resources(0, memory, minutes, resumes=False)


def _partition(site: Site, request: Resources) -> Partition:
    """The partition of a group's jobs."""
    name = site.partition_for(0, request.mem_mb, request.minutes)
    assert name is not None, "check_fits rejects such a run"
    return site.partitions[name]
