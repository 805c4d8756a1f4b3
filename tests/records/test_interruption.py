"""Stop requests: a command ends with exit code 75 and one line, at once when asked twice, and with its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stair.records.interruption import EXIT_AGAIN, PARENT

WAITS = """
import sys, time
from stair.records.interruption import end_with_driver, stoppable
with stoppable():
    end_with_driver()
    try:
        print("ready", flush=True)
        time.sleep(30)
    finally:
        print("closed", flush=True)
        time.sleep({seconds})
"""
DRIVES = """
import subprocess, sys, time
job = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stderr=open("log", "w"))
time.sleep(60)
"""


def started(*words: str, folder: Path | None = None, more: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", *words],
        cwd=folder,
        env=os.environ | (more or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_ends_a_command_which_closes_what_it_has_open(number: signal.Signals) -> None:
    with started(WAITS.format(seconds=0)) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        child.send_signal(number)
        out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (EXIT_AGAIN, "closed\n")
    assert err == f"stair: stopped by {number.name}; what was finished is kept; run the same command again to resume\n"


def test_a_second_signal_ends_it_at_once() -> None:
    with started(WAITS.format(seconds=30)) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        child.terminate()
        assert child.stdout.readline() == "closed\n"
        child.terminate()
        assert child.wait(10) == EXIT_AGAIN


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_job_ends_with_the_driver_that_has_started_it(tmp_path: Path) -> None:
    with started(DRIVES, WAITS.format(seconds=0), folder=tmp_path) as driver:
        assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
        driver.kill()
        assert driver.stdout.readline() == "closed\n"
    deadline = time.monotonic() + 10
    while "stopped by SIGTERM" not in (tmp_path / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with started(WAITS.format(seconds=0), more={PARENT: "1"}) as late:  # its driver ended before it could ask
        assert late.wait(20) == EXIT_AGAIN
