"""Small jobs on CPUs are submitted in groups, so that a scheduler sees hundreds of jobs instead of thousands.

Jobs on GPUs are submitted one by one, and so are seals: the shards of other conditions wait for Vanilla's seal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stair.config.site import Site
from stair.graph.outputs import OUTPUTS
from stair.graph.resources import resources
from stair.graph.run import Run

LARGEST = 12
"""Independent jobs, or chains of jobs, of a group."""
AT_A_TIME = 4
"""Jobs of a group that run side by side, each on one CPU."""


class _Group(NamedTuple):
    outputs: tuple[str, ...]
    levels: int = 1
    """Jobs that wait for each other."""


GROUPS = {
    "data": _Group(("raw", "benchmark", "training_pool"), 3),
    "preflight": _Group(("preflight", "preflight_limits"), 2),
    "sessions": _Group(("evaluation_sessions",)),
    "scores": _Group(("scores", "shared_t1_scores")),
    "statistics": _Group(("replay_statistics",)),
    "cards": _Group(("data_report", "data_card", "response_card", "check")),
    "reports": _Group(("table", "figure", "training_figure", "bank_cost_figure", "diagram")),
    "summary": _Group(("comparison", "claims", "provenance", "report"), 4),
}


def group_arguments(run: Run, site: Site) -> list[str]:
    """Snakemake's arguments that form the groups. Every group fits into its partition's memory and time."""
    sizes, memory = _sizes(run, site)
    rules = (f"{rule}={name}" for name in sizes for output in GROUPS[name].outputs for rule in OUTPUTS[output].rules)
    return [
        *("--groups", *rules),
        *("--group-components", *(f"{name}={size}" for name, size in sizes.items())),
        # Without limits, a group asks for the memory of all its jobs together, and for the cores of the driver's machine.
        *("--cores", str(AT_A_TIME)),
        *("--resources", f"mem_mb={memory}", "--set-resource-scopes", "mem_mb=local"),
    ]


def _sizes(run: Run, site: Site) -> tuple[dict[str, int], int]:
    """Components of each group, and the memory that the jobs of a group share, in MB.

    A group whose chain fits no partition is left out: its jobs are submitted one by one.
    """
    sizes = {}
    partitions = {need: site.partition_for(0, *need[1:]) for need in _needs(run)}
    fitting = [(*need, site.partitions[name]) for need, name in partitions.items() if name is not None]
    memory = min([AT_A_TIME * max(mem_mb for _, mem_mb, _ in partitions), *(limit.mem_mb for *_, limit in fitting)])
    for group, mem_mb, minutes, limit in fitting:
        sizes[group] = min(LARGEST, memory // mem_mb * (limit.minutes // minutes))
    return sizes, memory


def _needs(run: Run) -> Iterator[tuple[str, int, int]]:
    """Each group of a run, the memory of its largest job, and the minutes of its longest chain."""
    for group, (outputs, levels) in GROUPS.items():
        kinds = [OUTPUTS[output] for output in outputs]
        if jobs := [resources(run, kind, *name) for kind in kinds for name in kind.jobs(run)]:
            yield group, max(job.mem_mb for job in jobs), levels * max(job.minutes for job in jobs)


def submissions(run: Run, site: Site) -> int:
    """How many jobs a scheduler sees, if nothing fails. Downloads run beside the driver."""
    sizes, _ = _sizes(run, site)
    grouped = {output for group in sizes for output in GROUPS[group].outputs}
    count = 0
    for output in OUTPUTS.values():
        for name in output.jobs(run):
            if output.shards is not None:
                count += output.shards.count(run, *name)
            count += output.name not in grouped
    for group, size in sizes.items():
        outputs, levels = GROUPS[group]
        # A chain of several levels is one component: of a model in `preflight`, else of the whole run.
        components = [name for output in outputs for name in OUTPUTS[output].jobs(run)]
        number = (
            len(components) if levels == 1 else len({name[:1] for name in components} if group == "preflight" else {()})
        )
        count += -(-number // size)
    return count
