"""The guard of SGLang's server: its family ends with its owner, and it ends as its command does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from stair.engines.sglang import guard

FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for session in (False, True):  # one slips into a session of its own, and its parent dies at once
    subprocess.Popen([sys.executable, "-c", "import subprocess, sys; subprocess.Popen([sys.executable, '-c', "
        "'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])"],
        start_new_session=session).wait()
print("ready", flush=True)
time.sleep(600)
"""
"""A process with two orphans below it; none of them ends when asked to."""


def guarded(*command: str) -> tuple[subprocess.Popen[str], int]:
    """A guarded command, and the lifeline."""
    lifeline, end = os.pipe()
    words = [sys.executable, "-I", str(Path(guard.__file__)), str(lifeline), *command]
    child = subprocess.Popen(words, pass_fds=[lifeline], stdout=subprocess.PIPE, text=True, start_new_session=True)
    os.close(lifeline)
    return child, end


def family_of(child: subprocess.Popen[str]) -> list[psutil.Process]:
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    family = psutil.Process(child.pid).children(recursive=True)
    assert len(family) == 3
    return family


def assert_gone(family: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def stop_all(family: list[psutil.Process], child: subprocess.Popen[str]) -> None:
    for each in family:
        each.suspend()


def stop_guard_too(family: list[psutil.Process], child: subprocess.Popen[str]) -> None:
    stop_all(family, child)
    os.kill(child.pid, signal.SIGSTOP)


@pytest.mark.parametrize("before", [lambda *_: None, stop_all], ids=["running", "stopped"])
def test_a_family_ends_when_the_lifeline_closes(before: Callable[..., None]) -> None:
    child, end = guarded(sys.executable, "-c", FAMILY)
    family = family_of(child)
    before(family, child)
    os.close(end)
    assert child.wait(timeout=15) == 0
    assert_gone(family)


@pytest.mark.parametrize("before", [lambda *_: None, stop_guard_too], ids=["running", "stopped with its guard"])
def test_a_family_ends_when_its_owner_is_killed(before: Callable[..., None]) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(Path(guard.__file__)), FAMILY], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    (leader,) = psutil.Process(owner.pid).children()
    family = leader.children(recursive=True)
    assert len(family) == 3
    for each in family if before is stop_guard_too else ():
        each.suspend()
    if before is stop_guard_too:
        leader.suspend()
    owner.kill()
    owner.wait()
    assert_gone([leader, *family])


OWNER = """
import os, subprocess, sys, time
lifeline, end = os.pipe()
subprocess.Popen([sys.executable, "-I", sys.argv[1], str(lifeline), sys.executable, "-c", sys.argv[2]],
    pass_fds=[lifeline], start_new_session=True)
os.close(lifeline)
time.sleep(600)
"""


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_guard_ends_as_its_command_does(code: str, status: int) -> None:
    child, end = guarded(sys.executable, "-c", code)
    assert child.wait(timeout=15) == status
    os.close(end)


def test_what_a_dead_command_leaves_behind_ends_too() -> None:
    child, end = guarded(sys.executable, "-c", FAMILY)
    family = family_of(child)
    time.sleep(0.2)
    family[0].kill()
    assert child.wait(timeout=15) == 137
    assert_gone(family)
    os.close(end)
