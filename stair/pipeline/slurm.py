"""A run's jobs on a Slurm cluster. They outlive a killed driver, so the next start ends them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError

_PATIENCE_SECONDS = 600
"""How long Slurm may take to end cancelled jobs: its own KillWait is 30 s by default, sites set minutes."""


def profile_folder(project: Path, profile: str) -> Path:
    """The folder of a profile, by its name in profiles/ or its path. Raises ConfigError without one."""
    for folder in (project / "profiles" / profile, Path(profile).absolute()):
        if (folder / "config.yaml").is_file():
            return folder
    there = sorted(path.parent.name for path in (project / "profiles").glob("*/config.yaml"))
    raise ConfigError(f"--profile {profile}: there is no such profile (there are: {', '.join(there)})")


def runs_on_slurm(profile: Path) -> bool:
    """Raises ConfigError if it does, and names no partitions."""
    settings: Any = yaml.safe_load((profile / "config.yaml").read_text(encoding="utf-8")) or {}
    name = settings.get("slurm-partition-config")
    if name is not None and not (profile / name).is_file():
        raise ConfigError(
            f"{profile / name} does not exist; to write it from Slurm's own list: generate-slurm-partition-config -o "
            f"{profile / name} (docs/cluster.md)"
        )
    return bool(settings.get("executor") == "slurm")


def job_prefix(paths: RunPaths) -> str:
    """What the names of a run's jobs begin with: a digest of the run's folder."""
    return f"stair-{hashlib.sha256(str(paths.folder.resolve()).encode()).hexdigest()[:12]}"


def end_earlier_jobs(prefix: str) -> None:
    """Cancels the jobs that a killed driver left, and waits until none of them can write any more.

    Raises ConfigError if Slurm does not answer, or one has not ended after ten minutes.
    """
    try:
        if not (left := _jobs(prefix)):
            return
        print(f"stair: cancels {len(left)} jobs of an earlier start; they save their finished work", file=sys.stderr)
        subprocess.run(["scancel", "--quiet", *left], check=True)
        for _ in range(_PATIENCE_SECONDS):
            if not (left := _jobs(prefix)):
                return
            time.sleep(1)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"Slurm does not answer ({error}); start on a machine that submits to Slurm") from None
    raise ConfigError(
        f"Slurm has not ended cancelled jobs of an earlier start: see squeue --jobs {','.join(left)} (a job on a dead node "
        "ends when an administrator sets the node down), then start again"
    )


def _jobs(prefix: str) -> list[str]:
    """The numbers of the run's queued, running and ending jobs."""
    command = ["squeue", "--me", "--noheader", "--format=%i %j"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [job for job, name in map(str.split, listed.splitlines()) if name.startswith(prefix)]
