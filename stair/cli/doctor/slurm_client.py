"""Slurm: its client, its controller and its partitions."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from stair.cli.doctor.devices import wants_gpu
from stair.cli.doctor.finding import Finding, last_line, output_of
from stair.config.model import Config

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


def slurm_findings(config: Config | None) -> Iterator[Finding]:
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


def controller_answers() -> bool:
    """Whether jobs can be submitted to Slurm from here."""
    return shutil.which("sbatch") is not None and last_line(output_of(["sinfo", "--noheader"])[1]) != ""
