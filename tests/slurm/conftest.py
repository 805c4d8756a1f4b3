"""One cluster for all tests of this folder, and a run to its scores made without it, with which theirs are compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import REQUIRED
from tests.slurm.cluster import Cluster, why_not
from tests.slurm.driven import PROFILE
from tests.workflow.conftest import SMOKE, run_in

# Two rows at a time, so that a fault can hit the middle of a shard. Captured states differ with the width in their last bits.
LOCALLY = ("stair", "reproduce", "--run", str(SMOKE), "--set", "transformers={batch_width: 2}", "--target", "scores")
ON_SLURM = (*LOCALLY, "--profile", PROFILE)


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
def local_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the smoke run has been scored without a cluster; not to be changed."""
    folder = tmp_path_factory.mktemp("local")
    run_in(folder, *LOCALLY, warm=False)
    return folder
