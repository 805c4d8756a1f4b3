"""The smoke run on the cluster, through faults: the local run's results, byte for byte, and nothing is generated twice."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.conftest import ON_SLURM
from tests.slurm.driven import NODE, DrivenRun
from tests.workflow.conftest import RESULTS, contents

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def limited(cluster: Cluster, local_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenRun]:
    """A run whose training responses are still to be generated, with a limit of two minutes for their shards."""
    folder = tmp_path_factory.mktemp("limited") / "run"
    shutil.copytree(local_run, folder, symlinks=True)
    for name in ("rollouts", "work/rollouts", "work/progress"):
        shutil.rmtree(folder / "results" / "smoke" / name)
    short = ("--set-resources", "rollout_shard:slurm_partition=short", "rollout_shard:runtime=2")
    run = DrivenRun(cluster, folder, (*ON_SLURM, "--target", "rollouts"), {"main": NODE}, short)
    run.signal_seconds = 1  # Slurm looks every 30 s, and warns when the next look may be too late
    run.start()
    yield run
    run.stop()


@pytest.fixture(scope="module")
def whole(cluster: Cluster, limited: DrivenRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenRun]:
    """The whole run. The first attempt of a shard of training responses gets less memory than it needs."""
    little = ("--set-resources", "rollout_shard:mem_mb=400*attempt*attempt")
    run = DrivenRun(cluster, tmp_path_factory.mktemp("whole"), ON_SLURM, {"main": NODE}, little)
    run.start()
    yield run
    run.stop()


def test_jobs_at_their_time_limit_go_on(limited: DrivenRun, whole: DrivenRun, local_run: Path) -> None:
    limited.until("both shards run", lambda: len(limited.jobs("rollout_shard")) == 2)
    warned, stuck = limited.jobs("rollout_shard")
    for job in (warned, stuck):
        limited.until("a shard has finished responses", lambda: limited.records("rollouts") >= 3)
        process = limited.process_of(job, "rollouts")
        # Slurm's warning wakes the one, so that it handles the signal. Nothing wakes the other.
        if job == warned:
            os.kill(process, signal.SIGSTOP)
        else:
            limited.freeze(process)
    limited.until("the warned job is back in the queue", lambda: limited.show(warned)["Restarts"] == "1")
    limited.until("Slurm ends the other job at its limit", lambda: stuck in limited.ended("TIMEOUT"))
    limited.end()
    assert contents(limited.results, "rollouts/*.parquet") == contents(
        local_run / "results" / "smoke", "rollouts/*.parquet"
    )
    assert limited.repeated() == 0


def test_a_whole_run_goes_through_its_faults(cluster: Cluster, whole: DrivenRun, local_run: Path) -> None:
    whole.until("trainings run", lambda: whole.jobs("train_controller"), 400)
    said = "".join(path.read_text() for path in cluster.folder.glob("slurmd-*.log"))
    assert "Exceeded job memory limit" in said, "the shards of training responses had too little at first"

    whole.kill_driver()
    assert whole.jobs("train_controller"), "jobs outlive their driver"
    whole.start()
    whole.until("the next start ends them", lambda: "jobs of an earlier start" in whole.output)

    whole.until("a condition is evaluated", lambda: whole.records("evaluation") and whole.jobs("evaluation_shard"))
    cancelled = whole.jobs("evaluation_shard")[0]
    cluster.ask("scancel", cancelled)

    whole.until("a control is evaluated", lambda: whole.records("controls") and whole.jobs("controls_shard"))
    node = whole.show(whole.jobs("controls_shard")[0])["NodeList"]
    cluster.stop_node(node)
    cluster.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=power")
    time.sleep(2)
    cluster.start_node(node)
    cluster.ask("scontrol", "update", f"nodename={node}", "state=resume")

    whole.end()
    assert cancelled in whole.ended("CANCELLED")
    here, there = contents(whole.results, *RESULTS), contents(local_run / "results" / "smoke", *RESULTS)
    assert sorted(here) == sorted(there)
    assert [name for name in here if here[name] != there[name]] == []
    assert whole.repeated() == 0
