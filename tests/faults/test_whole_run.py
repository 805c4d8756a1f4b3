"""SIGKILL anywhere, again and again, over a whole run: to the driver, to a job, to the process that jobs fork from."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from stair.records.worklog import WorkLog
from tests.faults.conftest import COMMAND, SLOW
from tests.workflow.conftest import RESULTS, contents, environment, run_in

pytestmark = [pytest.mark.faults, pytest.mark.timeout(450)]

KILLS = 4


def victims(driver: psutil.Process, kind: str) -> list[psutil.Process]:
    """The driver itself; the warm process; or the jobs, each a fork of a fork of it."""
    if kind == "driver":
        return [driver]
    warm = [child for child in driver.children() if "stair.cli.warm" in child.cmdline()]
    if kind == "warm":
        return warm
    return [job for process in warm for handler in process.children() for job in handler.children()]


def kill_one(folder: Path, kind: str, after: float) -> bool:
    """Starts the run, and after some seconds kills one of its processes. False where the run had ended before."""
    with open(folder / "output.txt", "a") as output:
        child = subprocess.Popen([*COMMAND, *SLOW], cwd=folder, env=environment(), stdout=output, stderr=output)
    deadline, found = time.monotonic() + after, list[psutil.Process]()
    while child.poll() is None and not (found and time.monotonic() > deadline):
        time.sleep(0.02)
        with suppress(psutil.NoSuchProcess):
            found = victims(psutil.Process(child.pid), kind)
    if child.returncode is not None:
        return False
    family = psutil.Process(child.pid).children(recursive=True)
    with suppress(psutil.NoSuchProcess):
        os.kill(found[-1].pid, signal.SIGKILL)
    child.wait(300)
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not alive, f"processes outlived their driver: {alive}"
    return True


def test_a_run_that_is_killed_again_and_again_ends_as_if_undisturbed(undisturbed: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()
    chance, kills = random.Random("where"), 0
    for number in range(KILLS):
        kills += kill_one(killed, ("driver", "job", "driver", "warm")[number % 4], chance.uniform(3, 8))
    assert kills >= KILLS // 2, "the run ended too soon to be killed"
    run_in(killed, *COMMAND, *SLOW)  # the last bits of captured states depend on the batch width

    results = killed / "results" / "smoke"
    assert contents(results, *RESULTS) == contents(undisturbed, *RESULTS)
    for stage in ("rollouts", "evaluation"):
        for folder in (results / "work" / stage).glob("**/log"):
            assert WorkLog(folder).counts.duplicates == 0, "nothing was generated a second time"
