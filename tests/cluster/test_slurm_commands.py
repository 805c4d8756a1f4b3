"""Slurm's commands, here small programs on the PATH, answer, fail or stay silent; each caller reports it in its own words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stair.config.resolve import ConfigError
from stair.pipeline import slurm_queue
from stair.pipeline.cluster import ask_slurm
from stair.records.slurm_commands import SlurmError, SlurmSilentError, slurm_output

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


def test_the_output(program: Program) -> None:
    program("squeue", 'echo "$@"')
    assert slurm_output("squeue", "--me", seconds=60.0) == "--me\n"
    assert ask_slurm("squeue", "--me") == "--me\n"


def test_an_error(program: Program) -> None:
    program("squeue", UNREACHABLE)
    with pytest.raises(SlurmError, match="slurm_load_jobs error: Unable to contact\n  slurm controller"):
        slurm_output("squeue", seconds=60.0)
    with pytest.raises(
        ConfigError, match="--profile slurm: squeue failed: slurm_load_jobs error: Unable to contact slurm"
    ):
        ask_slurm("squeue")
    with pytest.raises(slurm_queue.QueueError) as raised:
        slurm_queue.slurm_queue(Path.cwd())
    assert str(raised.value) == "slurm_load_jobs error: Unable to contact"
    program("squeue", "exit 3")
    with pytest.raises(slurm_queue.QueueError, match=r"^squeue ended with 3$"):
        slurm_queue.slurm_queue(Path.cwd())


def test_silence(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program("squeue", "exec sleep 60")
    with pytest.raises(SlurmSilentError, match="timed out"):
        slurm_output("squeue", seconds=0.1)
    monkeypatch.setattr(slurm_queue, "_SECONDS", 0.1)
    with pytest.raises(slurm_queue.QueueError, match="squeue gave no answer within 0 s"):
        slurm_queue.slurm_queue(Path.cwd())
    with pytest.raises(ConfigError, match=r"no-such-program does not answer .*; start on a machine that submits"):
        ask_slurm("no-such-program")


def test_a_job_that_has_ended_need_not_be_cancelled(program: Program) -> None:
    program("scancel", "echo 'Invalid job id specified' >&2; exit 1")
    assert ask_slurm("scancel", "7") == ""
