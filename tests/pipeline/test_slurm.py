"""Slurm's commands, here small programs on the PATH, answer, fail or stay silent; and what follows for a start of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.config.site import Partition, Site
from stair.pipeline import cluster as cluster_module
from stair.pipeline.cluster import Cluster, check_names
from stair.records.slurm import SlurmError, slurm_output

ROOT = Path(__file__).parents[2]
Program = Callable[[str, str], None]
UNREACHABLE = "echo 'slurm_load_jobs error: Unable to contact' >&2; echo '  slurm controller' >&2; exit 1"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Writes a program with a name and a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def write(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return write


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    config = resolve(ROOT, {"run": "smoke", "results": str(tmp_path)})
    site = Site(partitions={"main": Partition(minutes=60, mem_mb=9000)}, snakemake=("--jobs", "50"))
    return Cluster(site, RunPaths.of(config))


def test_answers_and_errors_are_one_line(program: Program) -> None:
    program("squeue", 'echo "$@"')
    assert slurm_output("squeue", "--me") == "--me\n"
    for script, said in (
        (UNREACHABLE, r"squeue: slurm_load_jobs error: Unable to contact slurm controller"),
        ("echo 'squeue: error: no such user' >&2; exit 1", "squeue: no such user"),
        ("exit 3", "squeue: exit code 3"),
    ):
        program("squeue", script)
        with pytest.raises(SlurmError, match=f"^{said}$"):
            slurm_output("squeue")
    program("squeue", "exec sleep 60")
    with pytest.raises(SlurmError, match=r"^squeue gave no answer within 0 s$"):
        slurm_output("squeue", seconds=0.1)
    with pytest.raises(SlurmError, match="start on a machine that submits to Slurm"):
        slurm_output("no-such-program")


def test_wrong_names_of_a_site_are_refused_and_a_busy_partition_is_not(cluster: Cluster, program: Program) -> None:
    program("sbatch", "echo 'allocation failure: Requested nodes are busy' >&2; exit 1")
    check_names(cluster.site)
    program(
        "sbatch", "echo 'allocation failure: Invalid account or account/partition combination specified' >&2; exit 1"
    )
    with pytest.raises(ConfigError, match=r"^site\.yaml: Slurm accepts no job in the partition main"):
        check_names(cluster.site)


def test_the_jobs_of_a_killed_driver_are_cancelled_and_waited_for(
    cluster: Cluster, program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm ends one of two jobs at once and the other after a second look; another run's job stays."""
    (_, prefix, *site) = cluster.arguments
    assert site == ["--jobs", "50"], "the site's arguments come last, so that they win"
    lines = f"7|RUNNING|None|n1|{prefix}_a\n8|COMPLETING|None|n1|{prefix}_a\n9|RUNNING|None|n1|stair-other_a\n"
    (tmp_path / "queue").write_text(lines)
    program("squeue", f"cat {tmp_path}/queue; sed -i /COMPLETING/d {tmp_path}/queue")
    program("scancel", f'echo "$@" >> {tmp_path}/cancelled; sed -i /^7/d {tmp_path}/queue')
    left = cluster.jobs()
    assert left == ["7", "8"]
    cluster.end_jobs_of_killed_driver(left)
    assert (tmp_path / "cancelled").read_text() == "--quiet 7 8\n"
    assert "cancelled 2 jobs of an earlier start" in capsys.readouterr().err
    cluster.end_jobs_of_killed_driver([])
    cluster.cancel()
    assert (tmp_path / "cancelled").read_text() == "--quiet 7 8\n", "there is no job left to cancel"


def test_a_job_that_slurm_cannot_end_is_an_error(
    cluster: Cluster, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node died while it ended a job, which then stays in the queue."""
    prefix = cluster.arguments[1]
    program("squeue", f"echo '7|COMPLETING|None|n1|{prefix}_a'; echo '8|RUNNING|None|n1|{prefix}_a'")
    program("scancel", "exit 0")
    minutes = iter(range(0, 1200, 60))
    clock = SimpleNamespace(monotonic=lambda: next(minutes), sleep=lambda _: next(minutes))
    monkeypatch.setattr(cluster_module, "time", clock)
    with pytest.raises(SlurmError, match=r"within 10 minutes; see squeue --jobs 7 "):
        cluster.end_jobs_of_killed_driver(["7"])
