"""The lease of a run's driver, and Snakemake's lock, when the driver was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED
from stair.pipeline.driver_lease import DRIVER, forget_killed_driver, stale_locks
from stair.records.leases import HeldError, Lease, living
from tests.by_hand import by_hand

HOLD_AND_WAIT = """
import sys
from pathlib import Path
from stair.config.paths import RunPaths
from stair.pipeline.driver_lease import hold_run
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


def test_the_configuration_of_a_living_driver_is_not_replaced(tmp_path: Path) -> None:
    words = ("config", "--write", "--run", "tiny", "--set", f"results={tmp_path}")
    by_hand(*words)
    resolved = tmp_path / "tiny" / RESOLVED
    before = resolved.read_bytes()
    with (
        Lease(tmp_path / "tiny" / "work", DRIVER),
        pytest.raises(HeldError, match="is at work on driver since"),
    ):
        by_hand(*words, "--set", "evaluation={seed: other}")
    assert resolved.read_bytes() == before
    by_hand(*words, "--set", "evaluation={seed: other}")
    assert resolved.read_bytes() != before


def test_a_driver_that_lost_its_lease_ends(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    program = f"from stair.records import leases\nleases._RENEWAL_SECONDS = 0.05\n{HOLD_AND_WAIT}"
    command = [sys.executable, "-c", program, str(paths.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as driver:
        assert driver.stdout is not None and driver.stdout.readline() == b"leased\n"
        lease = paths.work() / f".{DRIVER}.lease"
        lease.write_text(lease.read_text().replace(str(driver.pid), "1"))
        assert driver.wait(timeout=20) == -signal.SIGTERM
        told = driver.stderr.read() if driver.stderr else b""
        assert b"another process drives this run now" in told


def test_only_a_lock_without_a_living_driver_is_stale(tmp_path: Path) -> None:
    paths, other = RunPaths(tmp_path / "run"), RunPaths(tmp_path / "other")
    lock, others = (each.folder / ".snakemake" / "locks" / "0.output.lock" for each in (paths, other))
    for file in (lock, others):
        file.parent.mkdir(parents=True)
        file.touch()
    with Lease(paths.work(), DRIVER):
        assert stale_locks(paths) == []
        assert stale_locks(other) == [others], "each run has its own driver"
    assert stale_locks(paths) == [lock], "the driver is gone"
    lock.unlink()
    assert stale_locks(paths) == []
