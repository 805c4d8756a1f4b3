"""Commands that fork from a warm process: the same outcome, and nothing outlives what it belongs to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from stair.cli.warm import warm_process
from stair.records.interruption import EXIT_AGAIN
from tests.workflow.conftest import BIN, environment

pytestmark = pytest.mark.timeout(120)
STAIR = str(BIN / "stair")


@dataclass
class Warm:
    """A warm process and the environment in which commands find it."""

    process: psutil.Process
    environment: dict[str, str]

    def run(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return run(self.environment, folder, *words)

    def waiting_job(self, folder: Path) -> tuple[subprocess.Popen[str], psutil.Process, int]:
        """A command that reads from a pipe, its job, and the pipe's other end. Nothing comes unless a test writes it."""
        os.mkfifo(folder / "in.jsonl")
        words = [STAIR, "score", "in.jsonl", "out.jsonl"]
        client = subprocess.Popen(words, cwd=folder, env=self.environment, stderr=subprocess.PIPE, text=True)
        writer = until(lambda: opened(folder / "in.jsonl"))
        (job,) = [job for handler in self.process.children() for job in handler.children()]
        return client, job, writer


def run(shell: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STAIR, *words], cwd=folder, env=shell, capture_output=True, text=True, check=False)


def opened(pipe: Path) -> int | None:
    """A pipe's end for writing, once it has a reader. Without one, the reader would come to the end."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def until(found):  # type: ignore[no-untyped-def]
    """The first true value of `found`, which must come soon."""
    deadline = time.monotonic() + 60
    while not (value := found()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
    return value


@contextmanager
def served(**variables: str) -> Iterator[Warm]:
    before, shell = psutil.Process().children(), environment() | variables
    with warm_process(shell):
        (process,) = [child for child in psutil.Process().children() if child not in before]
        yield Warm(process, shell)


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    """A process that serves several tests."""
    with served() as process:
        yield process


def test_output_exit_code_and_surroundings_are_those_of_the_command_itself(warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"id": "a", "kind": "math", "response": "\\\\boxed{4}", "reference": "4"}\nno\n'
    )
    for words in (
        ("config", "--run", "smoke"),
        ("score", "in.jsonl", "out.jsonl"),
        ("table", "--run", "nowhere", "--table", "intervals"),
        ("no-such-command",),
        ("--help",),
    ):
        alone, there = run(environment(), tmp_path, *words), warm.run(tmp_path, *words)
        assert (there.returncode, there.stdout, there.stderr) == (alone.returncode, alone.stdout, alone.stderr), words
    until(lambda: not warm.process.children())


def test_a_stopped_command_ends_its_job(warm: Warm, tmp_path: Path) -> None:
    client, job, _ = warm.waiting_job(tmp_path)
    client.send_signal(signal.SIGTERM)
    assert client.wait(30) == EXIT_AGAIN
    assert client.stderr is not None
    assert "stair: stopped by SIGTERM" in client.stderr.read()
    until(lambda: not job.is_running())


def test_a_job_dies_with_its_client(warm: Warm, tmp_path: Path) -> None:
    client, job, _ = warm.waiting_job(tmp_path)
    client.kill()
    client.wait()
    until(lambda: not job.is_running())
    assert warm.run(tmp_path, "--help").returncode == 0, "the warm process serves on"


def test_the_end_of_a_job_is_that_of_its_command(warm: Warm, tmp_path: Path) -> None:
    client, job, _ = warm.waiting_job(tmp_path)
    job.kill()
    assert client.wait(30) == 128 + signal.SIGKILL


ITEM = {"id": "a", "kind": "integer", "response": "\\boxed{4}", "reference": "4"}


@pytest.mark.parametrize("victim", ["handler", "warm process"])
def test_a_command_whose_job_dies_with_its_parents_runs_by_itself(victim: str, tmp_path: Path) -> None:
    with served() as mortal:
        client, job, writer = mortal.waiting_job(tmp_path)
        handler = job.parent()
        assert handler is not None
        (handler if victim == "handler" else mortal.process).kill()
        until(lambda: not job.is_running())
        os.close(writer)
        writer = until(lambda: opened(tmp_path / "in.jsonl"))
        os.write(writer, json.dumps(ITEM).encode() + b"\n")
        os.close(writer)
        assert client.wait(30) == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["verdict"] == "correct"


def test_a_command_that_waits_for_a_process_that_dies_runs_by_itself(tmp_path: Path) -> None:
    """The process imports for seconds before it serves; it is killed while a command waits for it."""
    (tmp_path / "in.jsonl").write_text(json.dumps(ITEM) + "\n")
    with served() as mortal:
        client = subprocess.Popen(
            [STAIR, "score", "in.jsonl", "out.jsonl"], cwd=tmp_path, env=mortal.environment, stdout=subprocess.DEVNULL
        )
        until(lambda: psutil.Process(client.pid).net_connections("unix"))
        mortal.process.kill()
        assert client.wait(30) == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["verdict"] == "correct"


@pytest.mark.parametrize("variable", [{"STAIR_WARM": "0"}, {"CUDA_VISIBLE_DEVICES": "0"}])
def test_without_the_process_a_command_runs_by_itself(
    tmp_path: Path, variable: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is switched off, or a GPU is visible: CUDA does not survive a fork."""
    before = psutil.Process().children()
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    with warm_process(shell := environment()):
        assert psutil.Process().children() == before
        done = run(shell, tmp_path, "--help")
    assert done.returncode == 0
    assert "Reproduce the STAIR paper" in done.stdout
