"""Faults on the cluster, over training responses of the smoke run: the same results, and nothing is generated twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stair.records.worklog import WorkLog
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import ON_SLURM, SLOW, write_site
from tests.workflow.conftest import contents, environment, run_in

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
COMMAND = (*ON_SLURM, *SLOW)
ROLLOUTS = "rollouts/*.parquet"


@pytest.fixture
def folder(undisturbed: Path, tmp_path: Path) -> Path:
    """The local run without its training responses."""
    shutil.copytree(undisturbed, tmp_path / "run", symlinks=True)
    results = tmp_path / "run" / "results" / "smoke"
    for name in ("rollouts", "work/rollouts", "work/progress"):
        shutil.rmtree(results / name)
    write_site(tmp_path / "run")
    return tmp_path / "run"


def records(folder: Path) -> int:
    """Finished responses in the work logs."""
    return sum(len(WorkLog(log)) for log in (folder / "results/smoke/work/rollouts").glob("**/log"))


def until(what: str, holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"in {seconds:.0f} s it did not happen that {what}"
        time.sleep(0.05)


def start(cluster: Cluster, folder: Path) -> subprocess.Popen[bytes]:
    """Starts the driver, and waits until a shard on the cluster has finished some responses."""
    with open(folder / "output.txt", "ab") as output:
        driver = subprocess.Popen(
            cluster.inside(*COMMAND, folder=folder), env=environment(), stdout=output, stderr=output
        )
    until("a shard finished responses", lambda: records(folder) >= 3 or driver.poll() is not None)
    assert driver.poll() is None, (folder / "output.txt").read_text()
    return driver


def shard_jobs(cluster: Cluster) -> list[str]:
    lines = cluster.ask("squeue", "-h", "-t", "R", "-o", "%i %k").splitlines()
    return [line.split()[0] for line in lines if "rollout_shard" in line]


def assert_undisturbed(folder: Path, undisturbed: Path) -> None:
    results = folder / "results" / "smoke"
    assert contents(results, ROLLOUTS) == contents(undisturbed / "results" / "smoke", ROLLOUTS)
    logs = list((results / "work" / "rollouts").glob("**/log"))
    assert logs and all(WorkLog(log).counts.duplicates == 0 for log in logs), "nothing was generated twice"


def end(driver: subprocess.Popen[bytes], folder: Path) -> str:
    assert driver.wait(300) == 0, (folder / "output.txt").read_text()
    return (folder / "output.txt").read_text()


def test_a_killed_driver_is_started_again(cluster: Cluster, undisturbed: Path, folder: Path) -> None:
    driver = start(cluster, folder)
    killed = {int(p.name) for p in cluster.members() if b"reproduce" in (p / "cmdline").read_bytes()}
    for number in killed:
        os.kill(number, signal.SIGKILL)
    driver.wait(10)
    assert shard_jobs(cluster), "the jobs outlive their driver"
    done = run_in(folder, *cluster.inside(*COMMAND, folder=folder), warm=False)
    assert "jobs of an earlier start" in done.stderr
    assert_undisturbed(folder, undisturbed)


def test_a_cancelled_job_is_submitted_again(cluster: Cluster, undisturbed: Path, folder: Path) -> None:
    driver = start(cluster, folder)
    cluster.ask("scancel", shard_jobs(cluster)[0])
    end(driver, folder)
    assert_undisturbed(folder, undisturbed)


def test_a_job_at_its_time_limit_requeues_itself(cluster: Cluster, undisturbed: Path, folder: Path) -> None:
    driver = start(cluster, folder)
    job = shard_jobs(cluster)[0]
    # What Slurm sends before the limit. The limit itself comes a minute later at the earliest.
    cluster.ask("scancel", "--signal=USR1", job)
    until("the job is requeued", lambda: "Restarts=1" in cluster.ask("scontrol", "show", "job", job))
    end(driver, folder)
    assert_undisturbed(folder, undisturbed)


def test_a_node_goes_down_and_comes_back(cluster: Cluster, undisturbed: Path, folder: Path) -> None:
    driver = start(cluster, folder)
    node = cluster.ask("squeue", "-h", "-j", shard_jobs(cluster)[0], "-o", "%N")
    cluster.stop_node(node)
    cluster.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=power")
    time.sleep(2)
    cluster.start_node(node)
    cluster.ask("scontrol", "update", f"nodename={node}", "state=resume")
    end(driver, folder)
    assert_undisturbed(folder, undisturbed)
