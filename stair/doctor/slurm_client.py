"""Slurm: its client, its controller, and partitions with GPUs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec

from stair.config.model import Config
from stair.doctor.devices import wants_gpu
from stair.doctor.finding import Finding, last_line, output_of

PLUGIN = "snakemake_executor_plugin_slurm"


def slurm_findings(config: Config | None) -> Iterator[Finding]:
    """The state of Slurm as a job's submission would find it."""
    absent = [name for name in ("sinfo", "sbatch", "squeue") if shutil.which(name) is None]
    if "sinfo" in absent:
        yield Finding("slurm", "ok", "Slurm is not installed here; jobs run on this machine")
        return
    if absent:
        text = f"Slurm's {' and '.join(absent)} is not on the PATH, so jobs cannot be submitted from here"
        yield Finding("slurm", "warning", text, "module load slurm, or install slurm-client")
        return
    code, listed, fault = output_of(["sinfo", "--noheader", "--format", "%P|%a|%l|%D|%G"])
    if code:
        # The client's first line names the cause.
        cause = (fault.strip().splitlines() or [f"sinfo ends with {code}"])[0].removeprefix("sinfo: error: ")
        text = f"Slurm's client is installed, but its controller does not answer: {cause}"
        yield Finding("slurm", "warning", text, "scontrol ping; without Slurm, jobs run on this machine")
        return
    rows = [line.split("|") for line in listed.splitlines() if line.count("|") == 4]
    yield from _partitions(config, rows)
    if find_spec(PLUGIN) is None:
        text = "the controller answers, but Snakemake's Slurm executor is not installed"
        yield Finding("slurm", "warning", text, "make env")


def _partitions(config: Config | None, rows: list[list[str]]) -> Iterator[Finding]:
    names: dict[str, list[str]] = {}
    for partition, state, limit, nodes, resources in rows:
        gpus = "" if resources in ("(null)", "") else f", {resources}"
        names.setdefault(partition, []).append(f"{nodes} nodes, {limit}{gpus}{'' if state == 'up' else f', {state}'}")
    if not names:
        yield Finding("slurm", "warning", "the controller answers, but no partition is visible to you", "sinfo --all")
        return
    for name, parts in names.items():
        yield Finding("slurm", "ok", f"partition {name}: {'; '.join(parts)}")
    if wants_gpu(config) and not any("gpu" in resources for *_, resources in rows):
        text = "no partition has GPUs (gres), and this run's models need them"
        yield Finding("slurm", "warning", text, "sinfo --format '%P %G', and ask the cluster's administrators")


def controller_answers() -> bool:
    """Whether jobs can be submitted to Slurm from here."""
    return shutil.which("sbatch") is not None and last_line(output_of(["sinfo", "--noheader"])[1]) != ""
