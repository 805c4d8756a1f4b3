"""The site's file beside Slurm's partitions: a job over a partition's limits never starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stair.cli.doctor.finding import Finding
from stair.config.site import SITE, Site

FORMAT = "%P|%a|%l|%D|%G|%m"
"""The columns of `sinfo`: partition, state, time limit, nodes, generic resources, memory of a node in MB."""

_GPUS = re.compile(r"gpu:(?:([^:,(]+):)?(\d+)")


class Nodes(NamedTuple):
    """Equal nodes of a partition, a line of `sinfo` in `FORMAT`."""

    partition: str
    state: str
    limit: str
    number: str
    resources: str
    memory: str

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs of a node by their model, which may be empty."""
        return {model: int(count) for model, count in _GPUS.findall(self.resources)}

    @property
    def minutes(self) -> float:
        """The time limit."""
        days, _, rest = self.limit.rpartition("-")
        parts = rest.split(":")
        if not all(part.isdigit() for part in parts):  # "infinite"
            return float("inf")
        hours, minutes = [0, *map(int, parts)][-3:-1] if len(parts) > 1 else (0, int(parts[0]))
        return int(days or 0) * 1440 + hours * 60 + minutes


def nodes_of(listed: str) -> list[Nodes]:
    """The lines of `sinfo`."""
    return [Nodes(*line.split("|")) for line in listed.splitlines() if line.count("|") == 5]


def site_findings(site: Site, listed: Sequence[Nodes]) -> Iterator[Finding]:
    """The partitions of the site's file that Slurm does not have, or that offer less than the file says."""
    there = {nodes.partition.rstrip("*") for nodes in listed}
    for name, partition in site.partitions.items():
        nodes = [each for each in listed if each.partition.rstrip("*") == name]
        key = f"partitions.{name}"
        if not nodes:
            text = f"{SITE}: Slurm has no partition {name}, so no job of it would be accepted"
            yield Finding("slurm", "error", text, f"name one of {', '.join(sorted(there))} in {SITE}")
            continue
        model = partition.gpu_model
        offers = {
            "minutes": (partition.minutes, max(each.minutes for each in nodes)),
            "mem_mb": (partition.mem_mb, max(int(re.sub(r"\D", "", each.memory) or 0) for each in nodes)),
            "gpus": (
                partition.gpus,
                max(each.gpus.get(model, 0) if model else max(each.gpus.values(), default=0) for each in nodes),
            ),
        }
        for what, (asked, offered) in offers.items():
            if asked > offered:
                of = f" of the model {model}" if what == "gpus" and model else ""
                text = f"{SITE}: {key}.{what} is {asked}, and the partition offers {offered:.0f}{of}, so such a job never starts"
                yield Finding("slurm", "error", text, f"set {key}.{what} to at most {offered:.0f} in {SITE}")
