"""Slurm: its client, its controller, its partitions, and the site's file beside them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stair.cli.doctor.devices import wants_gpu
from stair.cli.doctor.finding import Finding, last_line, output_of
from stair.config.model import Config
from stair.config.resolve import ConfigError
from stair.config.site import SITE, Site, read_site, site_file
from stair.pipeline.cluster import check_names

_FORMAT = "%P|%a|%l|%D|%G|%m"
"""The columns of `sinfo`: partition, state, time limit, nodes, generic resources, memory of a node in MB."""
_GPUS = re.compile(r"gpu:(?:([^:,(]+):)?(\d+)")


class Nodes(NamedTuple):
    """Equal nodes of a partition, a line of `sinfo` in `_FORMAT`."""

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
        days, _, rest = self.limit.rpartition("-")
        parts = rest.split(":")
        if not all(part.isdigit() for part in parts):  # "infinite"
            return float("inf")
        hours, minutes = [0, *map(int, parts)][-3:-1] if len(parts) > 1 else (0, int(parts[0]))
        return int(days or 0) * 1440 + hours * 60 + minutes


def slurm_findings(root: Path, config: Config | None) -> Iterator[Finding]:
    absent = [name for name in ("sinfo", "sbatch", "squeue") if shutil.which(name) is None]
    if "sinfo" in absent:
        yield Finding("slurm", "ok", "Slurm is not installed here; jobs run on this machine")
        return
    if absent:
        text = f"Slurm's {' and '.join(absent)} is not on the PATH, so jobs cannot be submitted from here"
        yield Finding("slurm", "warning", text, "module load slurm, or install slurm-client")
        return
    code, listed, fault = output_of(["sinfo", "--noheader", "--format", _FORMAT])
    if code:
        # The client's first line names the cause.
        cause = (fault.strip().splitlines() or [f"sinfo ends with {code}"])[0].removeprefix("sinfo: error: ")
        text = f"Slurm's client is installed, but its controller does not answer: {cause}"
        yield Finding("slurm", "warning", text, "scontrol ping; without Slurm, jobs run on this machine")
        return
    nodes = nodes_of(listed)
    yield from _partitions(config, nodes)
    if site_file(root).is_file():
        try:
            site = read_site(root)
            yield from site_findings(site, nodes)
            check_names(site)
        except ConfigError as error:
            yield Finding("slurm", "error", str(error), f"correct {SITE} (docs/cluster.md)")


def nodes_of(listed: str) -> list[Nodes]:
    return [Nodes(*line.replace("*|", "|", 1).split("|")) for line in listed.splitlines() if line.count("|") == 5]


def _partitions(config: Config | None, listed: list[Nodes]) -> Iterator[Finding]:
    names: dict[str, list[str]] = {}
    for each in listed:
        gpus = "" if each.resources in ("(null)", "") else f", {each.resources}"
        state = "" if each.state == "up" else f", {each.state}"
        names.setdefault(each.partition, []).append(f"{each.number} nodes, {each.limit}{gpus}{state}")
    if not names:
        yield Finding("slurm", "warning", "the controller answers, but no partition is visible to you", "sinfo --all")
        return
    for name, parts in names.items():
        yield Finding("slurm", "ok", f"partition {name}: {'; '.join(parts)}")
    if wants_gpu(config) and not any(each.gpus for each in listed):
        text = "no partition has GPUs (gres), and this run's models need them"
        yield Finding("slurm", "warning", text, "sinfo --format '%P %G', and ask the cluster's administrators")


def site_findings(site: Site, listed: Sequence[Nodes]) -> Iterator[Finding]:
    """Limits of the site's file above those of the partition: Slurm accepts a job that takes too long, and never starts it."""
    for name, partition in site.partitions.items():
        nodes = [each for each in listed if each.partition == name]
        if not nodes:  # `check_names` reports it
            continue
        model = partition.gpu_model
        gpus = (each.gpus.get(model, 0) if model else max(each.gpus.values(), default=0) for each in nodes)
        offers = {
            "minutes": (partition.minutes, max(each.minutes for each in nodes)),
            "mem_mb": (partition.mem_mb, max(int(re.sub(r"\D", "", each.memory) or 0) for each in nodes)),
            "gpus": (partition.gpus, max(gpus)),
        }
        for what, (asked, offered) in offers.items():
            if asked > offered:
                key = f"partitions.{name}.{what}"
                of = f" of the model {model}" if what == "gpus" and model else ""
                text = (
                    f"{SITE}: {key} is {asked}, and the partition offers {offered:.0f}{of}, so such a job never starts"
                )
                yield Finding("slurm", "error", text, f"set {key} to at most {offered:.0f} in {SITE}")


def controller_answers() -> bool:
    """Whether jobs can be submitted to Slurm from here."""
    return shutil.which("sbatch") is not None and last_line(output_of(["sinfo", "--noheader"])[1]) != ""
