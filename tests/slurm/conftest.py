"""One cluster for all tests of this folder, and training responses made on this machine, with which theirs are compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.programs import REQUIRED
from tests.slurm.cluster import Cluster, why_not
from tests.workflow.conftest import SMOKE, made_once

# Two rows at a time, so that there is a middle in which to disturb. Batch width is in no key.
SLOW = ("--set", "transformers={batch_width: 2}")
LOCALLY = ("stair", "reproduce", "--run", str(SMOKE), "--target", "rollouts")
ON_SLURM = (*LOCALLY, "--profile", "slurm")


def write_site(folder: Path, partition: str = "main", minutes: int = 60, **more: object) -> None:
    """The site's file for the test cluster."""
    site = {
        "signal_seconds": 30,
        "partitions": {partition: {"minutes": minutes, "mem_mb": 12_000, "gpus": 2, "gpu_model": "h100"}},
        "snakemake": [
            *("--slurm-status-command", "squeue"),
            *("--slurm-init-seconds-before-status-checks", "1"),
            *("--latency-wait", "5"),
        ],
    }
    (folder / "site.yaml").write_text(yaml.safe_dump(site | more))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster; everything ends with the session, after a failure too."""
    if (reason := why_not()) is not None:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED} is set, and {reason}")
        pytest.skip(reason)
    # munge refuses a socket below folders that others may write or not enter.
    folder = tmp_path_factory.mktemp("slurm")
    started = Cluster(folder)
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the training responses of a local run; not to be changed."""
    return made_once(tmp_path_factory, "master", "local", *LOCALLY)
