"""SIGTERM and SIGUSR1: a process stops where it may, says so in one line by its exit code, and at once when asked twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stair.records.interruption import EXIT_AGAIN

PRELUDE = """
import sys, time
from stair.records import interruption
from stair.records.interruption import Interrupted, check, deferred, stop_requested
def told(word): print(word, flush=True)
def waits(seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until: time.sleep(0.01)
interruption.listen()
try:
"""
END = """
except Interrupted as stop:
    told(f"stopped: {stop}")
    raise SystemExit(interruption.EXIT_AGAIN)
told("not stopped")
"""


@contextmanager
def process(body: str) -> Iterator[subprocess.Popen[str]]:
    """A process that does `body` and has said `ready`."""
    program = PRELUDE + "".join(f"    {line}\n" for line in body.splitlines()) + END
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def test_the_keyboard_is_heard_at_safe_points_too() -> None:
    body = """with deferred():
    told('ready')
    while not stop_requested(): waits(0.01)
    told('done')
told('never')"""
    with process(body) as child:
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    assert child.returncode == EXIT_AGAIN
    assert out.splitlines()[0] == "done"
    assert "stopped by SIGINT" in out and "never" not in out
    assert "SIGINT: stopping at the next safe point" in err
    # A second time, while the stop is on its way out: at once, with the same code.
    body = """try:
    with deferred():
        told('ready')
        while not stop_requested(): waits(0.01)
finally:
    told('leaving')
    waits()"""
    with process(body) as child:
        child.send_signal(signal.SIGINT)
        assert child.stdout is not None
        assert child.stdout.readline() == "leaving\n"
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=20)
    assert child.returncode == EXIT_AGAIN


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_command_stops_where_it_stands(number: signal.Signals) -> None:
    with process("told('ready')\nwaits()") as child:
        child.send_signal(number)
        out, _ = child.communicate(timeout=20)
    assert child.returncode == EXIT_AGAIN == 75
    assert out.splitlines() == [
        f"stopped: stopped by {number.name}; what was finished is kept; run the same command again to resume"
    ]


def test_deferred_work_stops_at_its_safe_point() -> None:
    body = """with deferred():
    told('ready')
    while not stop_requested(): time.sleep(0.01)
    told('checkpoint written')
    check('update 3 of 9 is kept')
    told('never')"""
    with process(body) as child:
        child.send_signal(signal.SIGUSR1)
        out, err = child.communicate(timeout=20)
    assert child.returncode == EXIT_AGAIN
    assert out.splitlines()[0] == "checkpoint written"
    assert out.splitlines()[1].startswith("stopped: stopped by SIGUSR1; update 3 of 9 is kept; ")
    assert "stopping at the next safe point" in err


def test_deferred_work_that_never_looks_ends_when_the_block_does() -> None:
    with process("with deferred():\n    told('ready')\n    waits(0.5)\n    told('done')\ntold('never')") as child:
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=20)
    assert child.returncode == EXIT_AGAIN
    assert [line.split(":")[0] for line in out.splitlines()] == ["done", "stopped"]


def test_an_error_in_deferred_work_is_told_and_not_the_stop() -> None:
    body = """with deferred():
    told('ready')
    while not stop_requested(): time.sleep(0.01)
    raise ValueError('broken')"""
    with process(body) as child:
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=20)
    assert child.returncode == 1
    assert "ValueError: broken" in err


def test_a_second_signal_ends_at_once() -> None:
    with process("with deferred():\n    told('ready')\n    waits()\n    told('never')") as child:
        child.send_signal(signal.SIGTERM)
        assert child.stderr is not None and "safe point" in child.stderr.readline()
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=20)
    assert (child.returncode, out) == (EXIT_AGAIN, "")
