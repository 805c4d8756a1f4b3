"""SIGKILL in the middle of a run, again and again: the next start goes on by itself and ends with the same bytes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from stair.records.interruption import EXIT_AGAIN
from stair.records.worklog import WorkLog
from tests.faults.conftest import COMMAND, SLOW
from tests.workflow.conftest import RESULTS, contents, environment, run_in

pytestmark = [pytest.mark.faults, pytest.mark.timeout(450)]


MODEL = "qwen3-4b-instruct"


def copy_parts(undisturbed: Path, results: Path, *parts: str) -> None:
    """Begins a run with these outputs of a finished one, as a user would who copies folders: they are not what is tested."""
    for part in parts:
        shutil.copytree(undisturbed / part, results / part)


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
    if kind == "driver":
        return [driver]
    children = [child for snakemake in driver.children() for child in snakemake.children()]
    warm = [child for child in children if "stair.cli.warm" in child.cmdline()]
    if kind == "warm":
        return warm
    return [job for process in warm for handler in process.children() for job in handler.children()]


def kill_when(folder: Path, ready: Callable[[], bool], kind: str = "driver") -> None:
    """Starts the run to its scores, and kills one of its processes as soon as `ready` says so; nothing of it may live on."""
    with open(folder / "output.txt", "a") as output:
        command = [*COMMAND, *SLOW, "--target", "scores"]
        child = subprocess.Popen(command, cwd=folder, env=environment(), stdout=output, stderr=output)
        driver, found = psutil.Process(child.pid), list[psutil.Process]()
        deadline = time.monotonic() + 300
        while not found:
            assert child.poll() is None, (
                f"the run ended before it could be killed:\n{(folder / 'output.txt').read_text()}"
            )
            assert time.monotonic() < deadline, "the run never came to the point where it is to be killed"
            time.sleep(0.05)
            with suppress(psutil.NoSuchProcess):
                found = victims(driver, kind) if ready() else []  # after the look, because jobs are short
        family = driver.children(recursive=True)
        with suppress(psutil.NoSuchProcess):
            found[-1].kill()
        child.wait(300)
        _, alive = psutil.wait_procs(family, timeout=15)
        assert not alive, f"processes outlived their driver: {alive}"


def second_driver_is_refused(folder: Path) -> bool:
    second = run_in(folder, *COMMAND, *SLOW, check=False)
    (line,) = second.stderr.splitlines()
    assert second.returncode == 2 and "another process drives the run" in line
    return True


def test_a_run_that_is_killed_again_and_again_ends_as_if_undisturbed(undisturbed: Path, tmp_path: Path) -> None:
    """To its scores; tests/workflow/test_operations_page.py compares the tables after a kill."""
    results = tmp_path / "results" / "smoke"
    copy_parts(undisturbed, results, "raw")

    kill_when(tmp_path, lambda: len(logged(results, "rollouts")) >= 10)
    after_first = logged(results, "rollouts")
    driver = results / "work" / "driver.pid"
    for kind, responses in (("job", 20), ("driver", 40), ("warm", 60)):  # after the last, jobs may go on by themselves

        def ready(kind: str = kind, least: int = responses) -> bool:
            reached = driver.is_file() and len(logged(results, "evaluation")) >= least
            return reached and (kind != "driver" or second_driver_is_refused(tmp_path))

        kill_when(tmp_path, ready, kind)
    after_second = logged(results, "evaluation")

    run_in(tmp_path, *COMMAND, *SLOW, "--target", "scores")
    assert "resuming from its finished work" in (tmp_path / "output.txt").read_text()

    # Nothing that was finished is gone, and nothing was generated a second time.
    for stage, before in (("rollouts", after_first), ("evaluation", after_second)):
        now = logged(results, stage)
        assert before.items() <= now.items()
        for folder in (results / "work" / stage).glob("**/log"):
            counts = WorkLog(folder).counts
            assert counts.duplicates == 0
            assert counts.damaged == 0
    made, expected = (contents(each, *RESULTS) for each in (results, undisturbed))
    not_made = {name for name in expected if name.startswith(("tables/", f"controllers/{MODEL}/lora"))}
    assert made == {name: content for name, content in expected.items() if name not in not_made}


def test_a_run_that_lost_its_captured_states_makes_them_again(undisturbed: Path, tmp_path: Path) -> None:
    results = tmp_path / "results" / "smoke"
    copy_parts(undisturbed, results, "raw", "rollouts", "controllers")
    work = results / "work" / "evaluation" / MODEL / "math500" / "stair"

    def past_second_turn() -> bool:
        """Whether a logged T2 or T3 has its states on disk, and so a turn to come: at most one file's response is not logged."""
        return len(list((work / "banks").glob("*.safetensors"))) > 1

    for _ in range(5):  # a chain can end between the look and the kill
        kill_when(tmp_path, past_second_turn)
        if past_second_turn():
            break
    assert past_second_turn()
    for path in (work / "banks").glob("*.safetensors"):
        path.unlink()
    run_in(tmp_path, *COMMAND, *SLOW, "--target", "evaluation")
    sources = {row["bank_source"] for row in rows_of(results) if row["turn"] > 2}
    assert sources <= {"decoded", "replayed"}
    assert "replayed" in sources


def rows_of(results: Path) -> list[dict[str, Any]]:
    """STAIR's sealed rows."""
    path = results / "responses" / MODEL / "math500" / "stair.parquet"
    return pq.read_table(path).to_pylist()


def test_a_run_that_is_asked_to_stop_says_run_me_again_and_goes_on(undisturbed: Path, tmp_path: Path) -> None:
    """By SIGTERM, then by Ctrl-C."""
    results = tmp_path / "results" / "smoke"
    copy_parts(undisturbed, results, "raw")
    before: dict[str, bytes] = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        child = subprocess.Popen(
            [*COMMAND, *SLOW],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        deadline = time.monotonic() + 300
        while len(logged(results, "rollouts")) < len(before) + 6:
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        family = psutil.Process(child.pid).children(recursive=True)
        # A terminal's Ctrl-C goes to every process of the group.
        os.killpg(child.pid, number) if number == signal.SIGINT else child.send_signal(number)
        _, told = child.communicate(timeout=60)
        assert child.returncode == EXIT_AGAIN
        assert "Traceback" not in told
        *lines, last = told.splitlines()
        again = "what was finished is kept; run the same command again to resume"
        assert last == f"stair: stopped by {number.name}; {again}"
        assert not [line for line in lines if "fail" in line or "rror" in line or "did not complete" in line]
        assert not psutil.wait_procs(family, timeout=10)[1]
        assert not list(results.glob(".snakemake/locks/*")) and not (results / "work" / "driver.pid").exists()
        assert before.items() <= logged(results, "rollouts").items()
        before = logged(results, "rollouts")

    run_in(tmp_path, *COMMAND, *SLOW, "--target", "rollouts")
    assert before.items() <= logged(results, "rollouts").items()
    assert contents(results, "rollouts/*.parquet") == contents(undisturbed, "rollouts/*.parquet")


def test_a_run_that_another_machine_drives_is_left_alone(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed.parent.parent, tmp_path, dirs_exist_ok=True, symlinks=True)
    lock = tmp_path / "results" / "smoke" / ".snakemake" / "locks" / "0.input.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("checks.csv\n")
    (tmp_path / "results" / "smoke" / "work" / "driver.pid").write_text("node17:4321\n")
    refused = run_in(tmp_path, *COMMAND, *SLOW, check=False)
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "another process drives the run" in line and "process 4321 on node17" in line
    shutil.rmtree(lock.parent)  # as the message says
    run_in(tmp_path, *COMMAND, *SLOW)
