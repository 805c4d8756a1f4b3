"""The jobs of a run on a Slurm cluster, which outlive the process that submitted them."""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError
from stair.config.site import SITE, Site
from stair.pipeline.slurm_queue import slurm_queue
from stair.records.slurm import SlurmError, slurm_output

_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 600.0
"""How long Slurm may take to end cancelled jobs: its own KillWait is 30 s by default, sites set minutes."""


def profile_folder(project: Path, profile: str) -> Path:
    """The folder of a profile, by its name in profiles/ or its path. Raises ConfigError without one."""
    for folder in (project / "profiles" / profile, Path(profile)):
        if (folder / "config.yaml").is_file():
            return folder
    there = sorted(path.parent.name for path in (project / "profiles").glob("*/config.yaml"))
    raise ConfigError(f"--profile {profile}: there is no such profile (there are: {', '.join(there)})")


def runs_on_slurm(profile: Path) -> bool:
    settings: Any = yaml.safe_load((profile / "config.yaml").read_text(encoding="utf-8")) or {}
    return settings.get("executor") == "slurm"


def check_names(site: Site) -> None:
    """Has Slurm check a site's account and partitions by a job that it does not submit.

    Raises:
        ConfigError: Slurm does not accept one.
    """
    account = [f"--account={site.account}"] if site.account else []
    for name in site.partitions:
        try:
            slurm_output("sbatch", "--test-only", *account, f"--partition={name}", "--time=1", "--wrap=true")
        except SlurmError as error:
            # A job can wait until other reasons are gone, such as nodes that are down.
            if re.search("invalid (account|partition)", str(error), re.I):
                raise ConfigError(
                    f"{SITE}: Slurm accepts no job in the partition {name} from the account {site.account or '(default)'} "
                    f"({error}): see `sinfo -o %P` and `sacctmgr show assoc user=$USER format=account,partition`"
                ) from None


class Cluster:
    """The Slurm jobs of one run. Their names begin with a digest of the run's folder. Its methods raise SlurmError if Slurm does
    not answer.
    """

    def __init__(self, site: Site, paths: RunPaths) -> None:
        place = hashlib.sha256(str(paths.folder.resolve()).encode()).hexdigest()[:12]
        self.site, self._prefix = site, f"stair-{place}"

    @property
    def arguments(self) -> list[str]:
        return ["--slurm-jobname-prefix", self._prefix, *self.site.snakemake]

    def jobs(self) -> list[str]:
        """The numbers of the run's queued, running and ending jobs."""
        return [job for job, entry in slurm_queue().items() if entry.name.startswith(f"{self._prefix}_")]

    def cancel(self, jobs: Collection[str] | None = None) -> None:
        """Cancels these jobs, by default all jobs of the run; they flush their finished work."""
        if jobs := self.jobs() if jobs is None else jobs:
            slurm_output("scancel", "--quiet", *jobs)  # quiet about a job that has ended meanwhile

    def end_jobs_of_killed_driver(self, left: Collection[str]) -> None:
        """Cancels the jobs that a killed driver left, and waits until none of them can write any more.

        Raises SlurmError if one has not ended after ten minutes.
        """
        if not left:
            return
        self.cancel(left)
        print(
            f"stair: cancelled {len(left)} jobs of an earlier start; waits until Slurm has ended them: they save their "
            "finished work, and the rest is submitted again",
            file=sys.stderr,
        )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while still := [job for job in self.jobs() if job in left]:
            if time.monotonic() > deadline:
                raise SlurmError(
                    f"Slurm has not ended cancelled jobs of an earlier start within {_PATIENCE_SECONDS / 60:.0f} minutes; "
                    f"see squeue --jobs {','.join(still)} (a job on a dead node ends when an administrator sets the node down), "
                    "then start again"
                )
            time.sleep(_LOOK_SECONDS)
