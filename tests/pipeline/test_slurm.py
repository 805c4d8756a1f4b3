"""A profile for Slurm; tests/slurm has the runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from stair.config.resolve import ConfigError
from stair.pipeline.jobs import JOBS
from stair.pipeline.slurm import profile_folder, runs_on_slurm
from tests.slurm.driven import SHIPPED, write_profile

ROOT = Path(__file__).parents[2]


def test_a_profile_needs_its_partitions(tmp_path: Path) -> None:
    shutil.copy(SHIPPED, tmp_path)
    with pytest.raises(ConfigError, match="generate-slurm-partition-config -o"):
        runs_on_slurm(profile_folder(ROOT, str(tmp_path)))
    write_profile(tmp_path)
    assert runs_on_slurm(tmp_path / "profile")
    assert not runs_on_slurm(profile_folder(ROOT, "local-gpu"))


def test_the_shipped_profile_has_memory_for_every_job_with_a_model() -> None:
    """And no rule that does not exist."""
    rules = yaml.safe_load(SHIPPED.read_text())["set-resources"]
    assert {rule for rule, job in JOBS.items() if job.engine} <= rules.keys() <= JOBS.keys()
