"""Small jobs on CPUs are submitted in groups, so that a scheduler sees hundreds of jobs instead of thousands.

Jobs on GPUs are submitted one by one, and so are seals: the shards of other conditions wait for Vanilla's seal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stair.config.site import Partition, Site
from stair.graph.outputs import OUTPUTS
from stair.graph.resources import Resources, resources
from stair.graph.run import Run

LARGEST = 12
"""Independent jobs, or chains of jobs, of a group."""
AT_A_TIME = 4
"""Jobs of a group that run side by side, each on one CPU."""


class _Group(NamedTuple):
    outputs: tuple[str, ...]
    chained: bool = False
    """Whether each output waits for the one before it."""
    per_model: bool = False
    """Whether the chains of the models are independent; else all jobs of a chained group are one component."""


GROUPS = {
    "data": _Group(("raw", "benchmark", "training_pool"), chained=True),
    "preflight": _Group(("preflight", "preflight_limits"), chained=True, per_model=True),
    "sessions": _Group(("evaluation_sessions",)),
    "scores": _Group(("scores", "shared_t1_scores")),
    "statistics": _Group(("replay_statistics",)),
    "cards": _Group(("data_report", "data_card", "response_card", "check")),
    "reports": _Group(("table", "figure", "training_figure", "bank_cost_figure", "diagram")),
    "summary": _Group(("comparison", "claims", "provenance", "report"), chained=True),
}


def group_arguments(run: Run, site: Site) -> list[str]:
    """Snakemake's arguments that form the groups. Every group fits into its partition's memory and time."""
    sizes, side_by_side = _sizes(run, site)
    rules = (f"{rule}={name}" for name in sizes for output in GROUPS[name].outputs for rule in OUTPUTS[output].rules)
    return [
        *(("--groups", *rules) if sizes else ()),
        *(("--group-components", *(f"{name}={size}" for name, size in sizes.items())) if sizes else ()),
        # A group's jobs run side by side on so many cores, and it asks for the memory of so many. A limit of memory here
        # would lower the requests of all jobs, those on GPUs included.
        *("--cores", str(side_by_side)),
    ]


def _sizes(run: Run, site: Site) -> tuple[dict[str, int], int]:
    """Components of each group, and the jobs of a group that run side by side.

    A group that fits no partition is left out: its jobs are submitted one by one.
    """
    requests = {name: list(_requests(run, group)) for name, group in GROUPS.items()}
    limits = {name: _partition(site, jobs) for name, jobs in requests.items() if jobs}
    # A second and a third attempt ask for twice and three times the memory.
    room = (limits[name].mem_mb // (3 * max(job.mem_mb for job in requests[name])) for name in limits)
    side_by_side = max(1, min([AT_A_TIME, *room]))
    sizes = {}
    for name, limit in limits.items():
        rounds = limit.minutes // max(job.minutes for job in requests[name])
        sizes[name] = max(
            (size for size in range(1, LARGEST + 1) if _rounds(run, GROUPS[name], size, side_by_side) <= rounds),
            default=0,
        )
    return {name: size for name, size in sizes.items() if size}, side_by_side


def _partition(site: Site, jobs: list[Resources]) -> Partition:
    """The partition that the jobs of a group go to: they ask for the same."""
    name = site.partition_for(0, max(job.mem_mb for job in jobs), max(job.minutes for job in jobs))
    assert name is not None, "check_fits refuses such a run"
    return site.partitions[name]


def _requests(run: Run, group: _Group) -> Iterator[Resources]:
    for output in group.outputs:
        for name in OUTPUTS[output].jobs(run):
            yield resources(run, OUTPUTS[output], *name)


def _components(run: Run, group: _Group) -> int:
    names = [name for output in group.outputs for name in OUTPUTS[output].jobs(run)]
    return len({name[: group.per_model] for name in names}) if group.chained else len(names)


def _rounds(run: Run, group: _Group, size: int, side_by_side: int) -> int:
    """How often a group of so many components waits for a job."""
    if not group.chained:
        return -(-size // side_by_side)
    components = _components(run, group)
    widths = (len(list(OUTPUTS[output].jobs(run))) for output in group.outputs)
    return sum(-(-min(size, components) * width // (components * side_by_side)) for width in widths)


def submissions(run: Run, site: Site) -> int:
    """How many jobs a scheduler sees, if nothing fails. Downloads run beside the driver."""
    sizes, _ = _sizes(run, site)
    grouped = {output for name in sizes for output in GROUPS[name].outputs}
    count = sum(-(-_components(run, GROUPS[name]) // size) for name, size in sizes.items())
    for output in OUTPUTS.values():
        for name in output.jobs(run):
            if output.shards is not None:
                count += output.shards.count(run, *name)
            count += output.name not in grouped
    return count
