"""Snakemake's own list of jobs: a dry run in a child process, whose jobs the display writes to a file."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from stair.config.paths import START, anchored
from stair.config.resolve import ConfigError

JOB_LIST = "STAIR_JOB_LIST"
"""Environment: the file to which the display of a dry run writes a line of JSON for each job."""


@dataclass(frozen=True)
class ListedJob:
    """A job of the workflow. Files are named relative to the run's folder."""

    rule: str
    wildcards: dict[str, str]
    inputs: Sequence[str]
    outputs: Sequence[str]
    log: Sequence[str]


def list_jobs(root: Path, overrides: Mapping[str, Any], target: str = "all") -> list[ListedJob]:
    """Every job of a configuration, whatever is done. Takes about three seconds.

    Args:
        overrides: the run and the settings of its start, as of `resolve`.
        target: a stage.

    Raises:
        ConfigError: Snakemake's own message.
    """
    with TemporaryDirectory(prefix="stair-") as folder:
        (empty := Path(folder) / "run").mkdir()  # Snakemake reads the Snakefile there
        listed = Path(folder) / "jobs.jsonl"
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "Snakefile"), target, "--dry-run"]
        start = str(anchored("").absolute())
        if os.sep in (run := str(overrides.get("run"))) or run.endswith((".yaml", ".yml")):
            overrides = {**overrides, "run": os.path.join(start, run)}
        done = subprocess.run(
            [*command, "--directory", str(empty), "--config", *config_words(overrides)],
            env=os.environ | {JOB_LIST: str(listed), START: start},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise ConfigError(_message(done.stderr))
        lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    return [ListedJob(**json.loads(line)) for line in lines]


def list_job(record: Any) -> None:
    """Writes a job of a dry run to the file of `list_jobs`, from an event of Snakemake's logger, and prints errors."""
    if getattr(record, "shellcmd", None) is not None:
        job = {
            "rule": record.rule_name,
            "wildcards": dict(record.wildcards or {}),
            "inputs": [str(file) for file in record.input or ()],
            "outputs": [str(file) for file in record.output or ()],
            "log": [str(file) for file in record.log or ()],
        }
        with open(os.environ[JOB_LIST], "a", encoding="utf-8") as file:
            file.write(json.dumps(job) + "\n")
    elif record.levelno >= logging.ERROR:
        print(record.getMessage(), file=sys.stderr)


def _message(text: str) -> str:
    """The line of Snakemake's error output that explains it."""
    told = text.partition("\nWildcards:")[0]  # a failed function of a rule's inputs has its wildcards after the error
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    kept = [line for line in lines if not re.match(r"(File .*, line \d+|Traceback|host:|Building DAG)", line)]
    named = [re.sub(r"^\w*(Error|Exception)( in file .*?, line \d+)?:\s*", "", line) for line in kept]
    return next((line for line in reversed(named) if line), "Snakemake ended without a message")


def config_words(overrides: Mapping[str, Any]) -> list[str]:
    """Overrides as words for `snakemake --config`. Spaces keep quotes at the ends, which Snakemake strips."""
    return [f"{key}={value}" if key == "run" else f"{key}= {_flow(value)} " for key, value in overrides.items()]


def setting_options(settings: Mapping[str, Any]) -> list[str]:
    """The settings as options of a shell's command."""
    return [word for key, value in settings.items() for word in ("--set", shlex.quote(f"{key}={_flow(value)}"))]


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
