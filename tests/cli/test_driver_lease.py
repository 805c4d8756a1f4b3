"""The lease of a run's driver, when the driver was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.jobs.leases import living
from stair.workflow.driver_lease import DRIVER, driver_at_work, forget_killed_driver

HOLD_AND_WAIT = """
import sys
from pathlib import Path
from stair.config.paths import RunPaths
from stair.workflow.driver_lease import hold_run
hold_run(RunPaths(Path(sys.argv[1])))
print("leased", flush=True)
sys.stdin.read()
"""


def test_only_a_dead_drivers_lease_is_taken_away(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    lease = paths.work() / f".{DRIVER}.lease"
    forget_killed_driver(paths)  # nothing there: nothing to do
    driver = subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_WAIT, str(paths.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert driver.stdout is not None and driver.stdout.readline() == "leased\n"
        forget_killed_driver(paths)
        holder = living(lease)
        assert holder is not None and holder.process == driver.pid
    finally:
        driver.kill()
        driver.communicate()
    assert lease.is_file()
    forget_killed_driver(paths)
    assert not lease.exists()
    assert not list(paths.work().iterdir()), "and nothing is left beside it"


@pytest.mark.parametrize(("options", "drives"), [((), True), (("--target-jobs", "table:"), False)])
def test_the_snakemake_of_a_clusters_job_drives_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], drives: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "snakemake"
    program.write_text("print('started', flush=True)\ninput()\n")
    process = subprocess.Popen(
        [sys.executable, str(program), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "started\n"
        assert driver_at_work(tmp_path / "results") == (f"process {process.pid}" if drives else None)
    finally:
        process.kill()
        process.communicate()
