"""Slurm: its client, its controller, its partitions, and the site's file beside them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from stair.cli.doctor.devices import wants_gpu
from stair.cli.doctor.finding import Finding, last_line, output_of
from stair.cli.doctor.site_partitions import FORMAT, Nodes, nodes_of, site_findings
from stair.config.model import Config
from stair.config.resolve import ConfigError
from stair.config.site import SITE, read_site, site_file
from stair.records.slurm_account import check_account

PLUGIN = "snakemake_executor_plugin_slurm"


def slurm_findings(root: Path, config: Config | None) -> Iterator[Finding]:
    """The state of Slurm as a job's submission from the project's folder would find it."""
    absent = [name for name in ("sinfo", "sbatch", "squeue") if shutil.which(name) is None]
    if "sinfo" in absent:
        yield Finding("slurm", "ok", "Slurm is not installed here; jobs run on this machine")
        return
    if absent:
        text = f"Slurm's {' and '.join(absent)} is not on the PATH, so jobs cannot be submitted from here"
        yield Finding("slurm", "warning", text, "module load slurm, or install slurm-client")
        return
    code, listed, fault = output_of(["sinfo", "--noheader", "--format", FORMAT])
    if code:
        # The client's first line names the cause.
        cause = (fault.strip().splitlines() or [f"sinfo ends with {code}"])[0].removeprefix("sinfo: error: ")
        text = f"Slurm's client is installed, but its controller does not answer: {cause}"
        yield Finding("slurm", "warning", text, "scontrol ping; without Slurm, jobs run on this machine")
        return
    nodes = nodes_of(listed)
    yield from _partitions(config, nodes)
    installed = find_spec(PLUGIN) is not None
    if not installed:
        text = "the controller answers, but Snakemake's Slurm executor is not installed"
        yield Finding("slurm", "warning", text, "make env")
    if site_file(root).is_file():
        try:
            site = read_site(root)
            yield from site_findings(site, nodes)
            if installed:
                check_account(site)
        except ConfigError as error:
            yield Finding("slurm", "error", str(error), f"correct {SITE} (docs/cluster.md)")


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
