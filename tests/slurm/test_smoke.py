"""The smoke run on the cluster, through faults, to its scores: a local run's bytes, and nothing is generated twice."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from stair.records.interruption import EXIT_AGAIN
from tests.slurm.cluster import NODES, Cluster
from tests.slurm.conftest import ON_SLURM
from tests.slurm.driven import DrivenRun, write_profile
from tests.workflow.conftest import RESULTS, contents, environment

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1200)]


def limited_run(cluster: Cluster, local_run: Path, folder: Path) -> DrivenRun:
    """A run of training responses whose shards have a limit of two minutes. Its driver is a job on the first node, too."""
    shutil.copytree(local_run, folder, symlinks=True)
    for name in ("rollouts", "work/rollouts", "work/progress"):
        shutil.rmtree(folder / "results" / "smoke" / name)
    # Slurm looks every 30 s, and warns when the next look may be too late.
    limit = {"slurm_partition": "short", "runtime": 2, "slurm_extra": "'--signal=USR1@1'"}
    write_profile(folder, rollout_shard=limit)
    return DrivenRun(cluster, folder, (*ON_SLURM, "--target", "rollouts"), as_job=True)


def stop_and_reach_the_time_limit(run: DrivenRun) -> None:
    """Ctrl-C ends the run and its jobs. Then a job is warned before its limit."""
    run.start()
    run.until("both shards run", lambda: len(run.jobs("rollout_shard")) == 2)
    interrupted = run.jobs("rollout_shard")
    processes = [run.process_of(job, "rollout_shard") for job in interrupted]
    run.stop_when(processes, "they have finished responses", lambda: run.records("rollouts") >= 2)
    assert run.interrupt_driver() == EXIT_AGAIN

    run.start()
    run.until("both shards run again", lambda: len(run.jobs("rollout_shard")) == 2)
    warned = run.jobs("rollout_shard")[0]
    shard, process = run.show(warned)["Comment"].split("_")[-2], run.process_of(warned, "rollout_shard")
    kept = run.records_of_shard("rollouts", shard)
    # Slurm's warning wakes it.
    run.stop_when([process], "the shard adds responses", lambda: run.records_of_shard("rollouts", shard) > kept)
    assert set(interrupted) <= set(run.ended("CANCELLED"))  # after seconds: jobs complete slowly
    run.until("the warned job is back in the queue", lambda: run.show(warned)["Restarts"] == "1")
    run.end()


def scored_run(cluster: Cluster, folder: Path) -> DrivenRun:
    """The run to its scores. The first attempt of a shard of training responses gets less memory than it needs.

    Conditions are evaluated on the second node alone, because the other run's jobs, which must outlive that node, are on
    the first.
    """
    folder.mkdir()
    write_profile(
        folder,
        rollout_shard={"mem_mb": "400 * attempt * attempt", "runtime": 60},
        evaluation_shard={"runtime": 60, "slurm_extra": f"'--signal=USR1@30 --nodelist={NODES[1]}'"},
    )
    return DrivenRun(cluster, folder, ON_SLURM)


def go_through_faults(run: DrivenRun) -> None:
    """Too little memory, a killed driver, a cancelled job, a lost node."""
    run.start()
    run.until("trainings run", lambda: run.jobs("train_controller"))
    said = "".join(path.read_text() for path in run.cluster.folder.glob("slurmd-*.log"))
    assert "Exceeded job memory limit" in said

    run.kill_driver()
    assert run.jobs("train_controller"), "jobs outlive their driver"
    run.start()
    run.until("the next start ends them", lambda: "jobs of an earlier start" in run.output)

    run.until("a condition is evaluated", lambda: run.records("evaluation") and run.jobs("evaluation_shard"))
    cancelled = run.jobs("evaluation_shard")[0]
    run.cluster.ask("scancel", cancelled)

    node = NODES[1]
    while not run.requeued():  # the job may have ended a moment before
        run.until("a condition is evaluated again", lambda: run.jobs("evaluation_shard"))
        run.cluster.stop_node(node)
        run.cluster.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=power")
        time.sleep(2)
        run.cluster.start_node(node)  # it reports itself, and then Slurm uses it again
    assert cancelled in run.ended("CANCELLED")
    run.end()


Story = tuple[DrivenRun, "Future[None]"]


@pytest.fixture(scope="module")
def stories(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, Story]]:
    """Both runs at the same time, because the limited one waits for minutes. The scored one begins before the local run."""
    folder = tmp_path_factory.mktemp("stories")
    scored = scored_run(cluster, folder / "scored")
    with ThreadPoolExecutor() as pool:
        told = {"scored": (scored, pool.submit(go_through_faults, scored))}
        try:
            limited = limited_run(cluster, request.getfixturevalue("local_run"), folder / "limited")
            told["limited"] = limited, pool.submit(stop_and_reach_the_time_limit, limited)
            yield told
        finally:
            for run, _ in told.values():
                run.stop()


@pytest.mark.usefixtures("stories")
def test_a_refusal_by_slurm_is_shown(cluster: Cluster, tmp_path: Path) -> None:
    write_profile(tmp_path, raw={"slurm_partition": "another"})
    words = cluster.inside(*ON_SLURM, "--target", "data", folder=tmp_path)
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1, said
    assert "failed: raw/" in said and "invalid partition specified: another" in said


def test_a_job_at_its_time_limit_goes_on(stories: dict[str, Story], local_run: Path) -> None:
    run, story = stories["limited"]
    story.result()
    rollouts = "rollouts/*.parquet"
    assert contents(run.results, rollouts) == contents(local_run / "results" / "smoke", rollouts)
    assert run.repeated() == 0


def test_a_run_goes_through_its_faults(stories: dict[str, Story], local_run: Path) -> None:
    run, story = stories["scored"]
    story.result()
    here, there = contents(run.results, *RESULTS), contents(local_run / "results" / "smoke", *RESULTS)
    assert sorted(here) == sorted(there)
    assert [name for name in here if here[name] != there[name]] == []
    assert run.repeated() == 0
