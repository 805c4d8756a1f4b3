"""Commands by hand, in this process: Snakemake lists the jobs of a start once for all commands of the tests."""

from __future__ import annotations

import pytest

from stair.cli.job import add_job_commands
from stair.cli.main import app
from stair.pipeline import job_inputs
from tests.listed import listed_once

add_job_commands()


def by_hand(*words: str) -> None:
    """Runs a command as a person does, without its inputs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job_inputs, "list_jobs", listed_once)
        app(words, standalone_mode=False)
