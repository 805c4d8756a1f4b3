"""Slurm's commands, and the one that a job gives itself: to go back into the queue."""

from __future__ import annotations

import os
import subprocess
import sys

from stair.records.interruption import time_limit_nears
from stair.records.progress import finished_units


class SlurmError(ValueError):
    """Slurm refused a command or did not answer it; the message is one line with its reason."""


def slurm_output(*command: str, seconds: float = 120.0) -> str:
    """The output of a Slurm command, which has `seconds` to answer.

    Raises:
        SlurmError: the command cannot be started, does not end in time, or fails.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} gave no answer within {seconds:.0f} s") from None
    except OSError as error:
        raise SlurmError(f"{command[0]}: {error.strerror}: start on a machine that submits to Slurm") from None
    if done.returncode:
        said = " ".join(done.stderr.split()).removeprefix(f"{command[0]}: error: ")
        raise SlurmError(f"{command[0]}: {said or f'exit code {done.returncode}'}")
    return done.stdout


def requeue_own_job() -> None:
    """Puts this Slurm job back into the queue if its time limit stopped it after progress; Slurm then ends this process.

    The job keeps its number, so the driver waits for it and counts no failure. A job without progress fails, so that retries end.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or not time_limit_nears() or not finished_units():
        return
    said = f"stair: Slurm job {job} goes back into the queue, to resume from its finished work"
    print(said, file=sys.stderr, flush=True)
    try:
        slurm_output("scontrol", "requeue", job)
    except SlurmError as error:
        print(f"stair: it cannot: {error}; the workflow submits it again", file=sys.stderr)
