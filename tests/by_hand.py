"""Commands by hand, in this process: Snakemake lists the jobs of a start once for all commands of the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stair.cli.job import add_job_commands
from stair.cli.main import app
from stair.pipeline import job_inputs
from stair.pipeline.job_list import ListedJob, list_jobs

add_job_commands()

_listed: dict[str, list[ListedJob]] = {}


def listed_once(root: Path, overrides: Mapping[str, Any], target: str) -> list[ListedJob]:
    """All jobs of a start, whatever stage is asked for: a command takes those of its rule."""
    key = json.dumps([str(root), overrides], sort_keys=True)
    if key not in _listed:
        _listed[key] = list_jobs(root, overrides)
    return _listed[key]


def by_hand(*words: str) -> None:
    """Runs a command as a person does, without its inputs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job_inputs, "list_jobs", listed_once)
        app(words, standalone_mode=False)
