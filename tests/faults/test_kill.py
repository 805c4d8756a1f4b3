"""Ctrl-C and SIGKILL in the middle of a run, again and again: the next start goes on by itself and ends with the same bytes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from stair.records.interruption import EXIT_AGAIN
from stair.records.worklog import WorkLog
from tests.workflow.conftest import RESULTS, SMOKE, contents, environment, run_in

pytestmark = [pytest.mark.faults, pytest.mark.timeout(450)]

COMMAND = ("stair", "reproduce", "--run", str(SMOKE), "--target", "scores")


def logged(results: Path, stage: str) -> dict[str, bytes]:
    """Whole records in a stage's logs: their places and bytes."""
    found = {}
    for folder in (results / "work" / stage).glob("**/log"):
        for path in folder.glob("*.log"):
            for number, line in enumerate(path.read_bytes().splitlines(keepends=True)):
                if line.endswith(b"\n"):
                    found[f"{path.relative_to(results)}:{number}"] = line
    return found


def victims(driver: psutil.Process, kind: str) -> list[psutil.Process]:
    """The driver itself; the warm process; or the jobs, each a fork of a fork of it."""
    if kind in ("driver", "Ctrl-C"):
        return [driver]
    children = [child for snakemake in driver.children() for child in snakemake.children()]
    warm = [child for child in children if "stair.cli.warm" in child.cmdline()]
    if kind == "warm":
        return warm
    return [job for process in warm for handler in process.children() for job in handler.children()]


def kill_when(folder: Path, ready: Callable[[], bool], kind: str) -> str:
    """Starts the run to its scores, and ends one of its processes as soon as `ready` says so; nothing of it may live on.

    Returns what this start has printed.
    """
    output = folder / f"{kind}.txt"
    with open(output, "w") as sink:
        child = subprocess.Popen(
            COMMAND, cwd=folder, env=environment(), stdout=sink, stderr=sink, start_new_session=True
        )
        driver, found = psutil.Process(child.pid), list[psutil.Process]()
        deadline = time.monotonic() + 300
        while not found:
            assert child.poll() is None, f"the run ended before it could be killed:\n{output.read_text()}"
            assert time.monotonic() < deadline, "the run never came to the point where it is to be killed"
            time.sleep(0.05)
            with suppress(psutil.NoSuchProcess):
                found = victims(driver, kind) if ready() else []  # after the look, because jobs are short
        family = driver.children(recursive=True)
        if kind == "Ctrl-C":  # a terminal's goes to every process of the group
            os.killpg(child.pid, signal.SIGINT)
        else:
            with suppress(psutil.NoSuchProcess):
                found[-1].kill()
        code = child.wait(300)
        assert kind != "Ctrl-C" or code == EXIT_AGAIN
        _, alive = psutil.wait_procs(family, timeout=15)
        assert not alive, f"processes outlived their driver: {alive}"
    return output.read_text()


def second_driver_is_refused(folder: Path) -> bool:
    second = run_in(folder, *COMMAND, check=False)
    (line,) = second.stderr.splitlines()
    assert second.returncode == 2 and "another process drives the run" in line
    return True


def test_a_run_that_is_killed_again_and_again_ends_as_if_undisturbed(undisturbed: Path, tmp_path: Path) -> None:
    """To its scores; tests/workflow/test_operations_page.py compares the tables after a kill."""
    results = tmp_path / "results" / "smoke"
    shutil.copytree(undisturbed / "raw", results / "raw")

    told = kill_when(tmp_path, lambda: len(logged(results, "rollouts")) >= 10, "Ctrl-C")
    assert told.splitlines()[-1].startswith("stair: stopped by SIGINT; ") and "Traceback" not in told
    after_first = logged(results, "rollouts")
    driver = results / "work" / "driver.pid"
    for kind, responses in (("job", 20), ("driver", 40), ("warm", 60)):  # after the last, jobs may go on by themselves

        def ready(kind: str = kind, least: int = responses) -> bool:
            reached = driver.is_file() and len(logged(results, "evaluation")) >= least
            return reached and (kind != "driver" or second_driver_is_refused(tmp_path))

        told = kill_when(tmp_path, ready, kind)
    after_second = logged(results, "evaluation")
    assert "resuming from its finished work" in told, "of the killed driver"

    run_in(tmp_path, *COMMAND)
    # Nothing that was finished is gone, and nothing was generated a second time.
    for stage, before in (("rollouts", after_first), ("evaluation", after_second)):
        now = logged(results, stage)
        assert before.items() <= now.items()
        for folder in (results / "work" / stage).glob("**/log"):
            counts = WorkLog(folder).counts
            assert counts.duplicates == 0
            assert counts.damaged == 0
    made, expected = (contents(each, *RESULTS) for each in (results, undisturbed))
    not_made = {name for name in expected if name.startswith(("tables/", "controllers/qwen3-4b-instruct/lora"))}
    assert made == {name: content for name, content in expected.items() if name not in not_made}
