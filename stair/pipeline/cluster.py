"""The jobs of a run on a Slurm cluster, which outlive the process that submitted them."""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from stair.config.resolve import ConfigError
from stair.config.site import Site
from stair.pipeline.driver_lease import lease_file, run_holder
from stair.pipeline.job_groups import group_arguments
from stair.pipeline.job_list import ListedJob
from stair.pipeline.job_logs import is_silence
from stair.pipeline.run import Run
from stair.pipeline.status import read_journal
from stair.records.slurm_commands import SlurmError, SlurmSilentError, slurm_output

_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 30.0
"""How often a start says which jobs it waits for."""
_SILENCE_SECONDS = 10.0
_ANSWER_SECONDS = 120.0


def profile_folder(project: Path, profile: str) -> Path:
    """The folder of a profile, by its name in profiles/ or by its path.

    Raises:
        ConfigError: there is none.
    """
    for folder in (project / "profiles" / profile, Path(profile)):
        if (folder / "config.yaml").is_file():
            return folder
    there = sorted(path.parent.name for path in (project / "profiles").glob("*/config.yaml"))
    raise ConfigError(f"--profile {profile}: there is no such profile (there are: {', '.join(there)})")


def runs_on_slurm(profile: Path) -> bool:
    """Whether a profile submits jobs to Slurm."""
    settings: Any = yaml.safe_load((profile / "config.yaml").read_text(encoding="utf-8")) or {}
    return settings.get("executor") == "slurm"


class Cluster:
    """The jobs of one run, which its drivers submit under one prefix of their names.

    Args:
        site: the cluster's limits.
        run: the run.
        jobs: Snakemake's list of the run's jobs, for their groups.
    """

    def __init__(self, site: Site, run: Run, jobs: Sequence[ListedJob]) -> None:
        self.site, self._run, self._listed, self._paths = site, run, jobs, run.paths
        place = hashlib.sha256(str(run.paths.folder.resolve()).encode()).hexdigest()[:12]
        self._prefix = f"stair-{place}"

    @property
    def arguments(self) -> list[str]:
        """Snakemake's arguments for this run and site."""
        states = ["--slurm-status-command", "squeue"] if _keeps_no_accounts() else []  # the executor would ask sacct
        groups = group_arguments(self._run, self.site, self._listed)
        return ["--slurm-jobname-prefix", self._prefix, *groups, *states, *self.site.snakemake]

    def cancel(self) -> None:
        """Cancels the run's jobs; they flush their finished work."""
        if jobs := self._jobs():
            ask_slurm("scancel", *jobs)

    def end_jobs_of_killed_driver(self) -> None:
        """Cancels the jobs that a killed driver left, and waits for their end: their shards are submitted again.

        Raises:
            ConfigError: the run's driver is at work, so the jobs are its own; or Slurm does not answer.
        """
        # A driver leases the run before it submits, so jobs that were there before nobody held the lease are nobody's.
        left = self._jobs()
        if (holder := run_holder(self._paths)) is not None:
            raise ConfigError(
                f"process {holder.process} on {holder.host} drives {self._paths.folder} since {holder.since}; wait "
                f"for it or stop it (if it is surely gone, delete {lease_file(self._paths)})"
            )
        if not left:
            return
        ask_slurm("scancel", *left)
        print(
            f"stair: cancelled {len(left)} jobs of an earlier start; they save their finished work, and the rest is "
            "submitted again",
            file=sys.stderr,
        )
        said = time.monotonic()
        while ending := {job: state for job, state in self._jobs().items() if job in left}:
            if time.monotonic() - said > _PATIENCE_SECONDS:
                states = ", ".join(f"{job} {state}" for job, state in ending.items())
                print(f"stair: waits for Slurm to end jobs that may still write: {states}", file=sys.stderr)
                said = time.monotonic()
            time.sleep(_LOOK_SECONDS)

    def outlast_silence(self, since: float) -> bool:
        """Whether submissions have failed since a time because Slurm did not answer. Then waits until it does.

        Retries of a submission follow within seconds, and a controller may be away for minutes.

        Raises:
            ConfigError: another process drives the run meanwhile.
        """
        if not any(entry.time >= since and is_silence(entry.reason) for entry in read_journal(self._paths).values()):
            return False
        print(
            "stair: Slurm did not answer, so jobs were not submitted; starting again when it answers", file=sys.stderr
        )
        while True:
            try:
                self.end_jobs_of_killed_driver()  # a submission may have arrived all the same
            except ConfigError:
                if run_holder(self._paths) is not None:  # somebody else has started the run meanwhile
                    raise
                time.sleep(_SILENCE_SECONDS)
            else:
                return True

    def _jobs(self) -> dict[str, str]:
        """The ids of the run's queued, running and ending jobs, and their states."""
        listed = ask_slurm("squeue", "--me", "--noheader", "--format=%i|%T|%j")
        lines = (line.split("|", 2) for line in listed.splitlines())
        return {job: state for job, state, name in lines if name.startswith(f"{self._prefix}_")}


def _keeps_no_accounts() -> bool:
    """Whether accounting is off; False where Slurm does not answer, which a start reports."""
    try:
        settings = ask_slurm("scontrol", "show", "config")
    except ConfigError:
        return False
    return re.search(r"^AccountingStorageType\s*=\s*(accounting_storage/none|\(null\))", settings, re.M) is not None


def ask_slurm(*words: str) -> str:
    """The output of one of Slurm's commands. Raises ConfigError if it fails."""
    try:
        return slurm_output(*words, seconds=_ANSWER_SECONDS)
    except SlurmSilentError as error:
        raise ConfigError(
            f"--profile slurm: {words[0]} does not answer ({error}); start on a machine that submits"
        ) from None
    except SlurmError as error:
        if words[0] == "scancel":  # a job may have ended by itself
            return ""
        raise ConfigError(f"--profile slurm: {words[0]} failed: {' '.join(str(error).split())}") from None
