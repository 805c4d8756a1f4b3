"""The journal of a run's jobs: a line for every start, submission, end and failure, written by the process that drives the run.

The display appends to it and `stair status` reads it. It has one writer, because only a driver that holds the run's lease
writes. It decides nothing: the outputs alone say what is done.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.config.paths import RunPaths

JobName = tuple[str, ...]
"""A rule and the values of its wildcards, sorted by wildcard."""


def job_name(rule: str, wildcards: Mapping[str, str]) -> JobName:
    """The name by which the journal knows a job."""
    return (rule, *(str(wildcards[key]) for key in sorted(wildcards)))


def journal_path(paths: RunPaths) -> Path:
    """The journal's file."""
    return paths.work() / "jobs.jsonl"


@dataclass(frozen=True)
class Entry:
    """The last state of a job."""

    event: str
    """started, finished, failed, or stopped by a signal."""
    time: float
    """Seconds since the epoch."""
    began: float = 0.0
    """When the last attempt started."""
    logs: tuple[Path, ...] = ()
    """The job's log; after a failure on a cluster, the cluster's log too."""
    comment: str = ""
    """The comment that Snakemake's Slurm executor gives the job."""
    slurm: str = ""
    """Slurm's number of the job."""
    message: str = ""
    """What Snakemake reports on a failure."""


class Journal:
    """The driver's end of the journal.

    Args:
        paths: the run's files.
    """

    def __init__(self, paths: RunPaths) -> None:
        self._path = journal_path(paths)

    def write(self, event: str, rule: str, wildcards: Mapping[str, str], **details: Any) -> None:
        """Appends a line. A fault of the disk loses this line and stops nothing: the jobs report the fault themselves."""
        line = {"event": event, "job": job_name(rule, wildcards), "time": round(time.time(), 1)} | details
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def started(self, rule: str, wildcards: Mapping[str, str], logs: list[str]) -> None:
        """A job was started on this machine, or is about to be submitted."""
        values = "_".join(str(value) for value in wildcards.values()).replace("/", "_")
        comment = f"rule_{rule}" + (f"_wildcards_{values}" if values else "")
        self.write("started", rule, wildcards, logs=[os.path.abspath(log) for log in logs], comment=comment)


def read_journal(paths: RunPaths) -> dict[JobName, Entry]:
    """The last state of every job that the journal names; torn and unknown lines are skipped."""
    entries: dict[JobName, Entry] = {}
    try:
        lines = journal_path(paths).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            content = json.loads(line)
            name, event, when = tuple(content["job"]), str(content["event"]), float(content["time"])
        except (ValueError, KeyError, TypeError):
            continue
        before = entries.get(name, Entry("", 0.0))
        entries[name] = Entry(
            event=before.event if event == "submitted" else event,
            time=before.time if event == "submitted" else when,
            began=when if event == "started" else before.began,
            logs=tuple(Path(log) for log in content.get("logs", ())) or before.logs,
            comment=content.get("comment", before.comment),
            slurm=str(content.get("slurm", "" if event == "started" else before.slurm)),
            message=str(content.get("message", "")),
        )
    return entries
