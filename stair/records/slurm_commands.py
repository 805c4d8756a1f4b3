"""Running Slurm's commands: their output, or one error that says why there is none."""

from __future__ import annotations

import subprocess


class SlurmError(Exception):
    """A command of Slurm ended with an error; the message is its standard error."""


class SlurmSilentError(SlurmError):
    """A command of Slurm could not be started, or did not end in time."""


def slurm_output(*command: str, seconds: float) -> str:
    """The output of one of Slurm's commands, which has `seconds` to answer.

    Raises:
        SlurmSilentError: there is no answer.
        SlurmError: the command ended with an error.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmSilentError(str(error)) from None
    if done.returncode:
        raise SlurmError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")
    return done.stdout
