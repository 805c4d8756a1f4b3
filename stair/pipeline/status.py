"""The state of a run, from its outputs, the progress files of its jobs, and their logs."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stair.config.model import Config
from stair.config.paths import RunPaths, project_root
from stair.config.resolve import unlike_its_overlay
from stair.pipeline.driver import has_ended, is_driven
from stair.pipeline.jobs import stage_files, stages_of
from stair.records.progress import ProgressFile, duration, read_progress

if TYPE_CHECKING:
    from rich.table import Table

_QUIET_SECONDS = 600.0
"""A job on another machine without an update for so long has stopped, as far as this machine can know."""
_CLOCK_SECONDS = 10.0
"""How far the clocks of a driver and of a file server may differ."""
_ERROR = "stair: error:"

State = Literal["running", "stopped", "done"]


class JobState(NamedTuple):
    """A job that reports its progress."""

    name: str
    state: State
    progress: ProgressFile


def job_states(paths: RunPaths) -> list[JobState]:
    """The jobs that have reported progress, those of earlier starts too."""
    found = []
    for path in sorted(paths.progress.glob("*.json")):
        if (progress := read_progress(path)) is not None:
            found.append(JobState(progress.job, _state(progress), progress))
    return found


def _state(progress: ProgressFile) -> State:
    if progress.done >= progress.total:
        return "done"
    if progress.host == socket.gethostname():
        return "stopped" if has_ended(progress.host, progress.process) else "running"
    return "running" if time.time() - progress.updated < _QUIET_SECONDS else "stopped"


def outputs_of(config: Config, paths: RunPaths) -> dict[str, tuple[int, int]]:
    """The outputs of each stage that exist, and all of them."""
    files = {stage: stage_files(config, paths, stage) for stage in stages_of(config)}
    return {stage: (sum(file.exists() for file in made), len(made)) for stage, made in files.items()}


def failures(paths: RunPaths) -> Iterator[tuple[str, str, Path]]:
    """The jobs whose last attempt ended with an error: name, last line of its log, and log."""
    for log in sorted((paths.folder / "logs").rglob("*.log")):
        if (line := last_line(log)).startswith(_ERROR):
            yield (
                log.relative_to(paths.folder / "logs").with_suffix("").as_posix(),
                line.removeprefix(_ERROR).strip(),
                log,
            )


def failure(logs: Iterable[Path], *, since: float, message: str = "") -> str:
    """Why a job failed, in one line.

    Args:
        logs: its own, and that of a cluster.
        since: the start of the attempt; an earlier one's log explains nothing.
        message: Snakemake's, of a job on a cluster.
    """
    lines = []
    for log in logs:
        if log.is_file() and log.stat().st_mtime >= since - _CLOCK_SECONDS and (line := last_line(log)):
            lines.append(line)
    own = next((line for line in lines if line.startswith(_ERROR)), None)
    if own is not None:
        return own.removeprefix(_ERROR).strip()
    # The plugin's first sentences, and not the hint at the logs that Snakemake appends.
    head = message.partition("\n")[0].partition("For further error details")[0].strip()
    return " ".join([head or "it ended without an error of its own; its last line:", *lines[:1]])


def last_line(log: Path) -> str:
    """The last line with text; empty without one."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - 10_000))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


# ---------------------------------------------------------------- for the terminal and for programs


def progress_table(jobs: Iterable[tuple[str, ProgressFile | None]]) -> Table:
    """A line for each job: its name, what it has done, its speed and the time left."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for _ in range(3):
        table.add_column(no_wrap=True, justify="right")
    for name, progress in jobs:
        if progress is None:
            table.add_row(name)
            continue
        left = progress.seconds_left
        table.add_row(
            name,
            f"{progress.done} of {progress.total} {progress.unit}",
            f"{progress.facts['tokens_per_s']:.0f} tokens/s" if "tokens_per_s" in progress.facts else "",
            "" if left is None else f"{duration(left)} left",
        )
    return table


def status_view(config: Config, paths: RunPaths) -> Iterator[Table | str]:
    """What `stair status` prints: outputs by stage, running jobs, stopped ones, failures, and how to go on."""
    states, outputs = job_states(paths), outputs_of(config, paths)
    for stage, (made, count) in outputs.items():
        if count:
            yield f"{stage:12}{made:5} of {count} outputs"
    for state in ("running", "stopped"):
        if jobs := [job for job in states if job.state == state]:
            yield f"{state}:"
            # A stopped job has no time left.
            yield progress_table(
                (f"  {job.name}", job.progress if state == "running" else replace(job.progress, fresh=0))
                for job in jobs
            )
    for name, line, log in failures(paths):
        yield f"failed: {name}: {line} (log: {log})"
    if unlike := unlike_its_overlay(config, project_root()):
        yield f"not as its overlay: {', '.join(unlike)}"
    made, count = (sum(column) for column in zip(*outputs.values(), strict=True))
    yield f"{made} of {count} outputs"
    if is_driven(paths) or any(job.state == "running" for job in states):
        return
    if paths.is_archive:
        yield f"an archive, without responses and data; to make these, too: {paths.start_command()}"
    elif made < count:
        yield f"stopped; to go on: {paths.start_command()}"
    else:
        yield f"finished at {_last_sealed(paths)}; on one page: {paths.report}"


def _last_sealed(paths: RunPaths) -> str:
    """When the last output was made."""
    try:
        return str(json.loads(paths.provenance.read_text(encoding="utf-8"))["sealed"]["last"])
    except (OSError, ValueError, KeyError):
        return "an unknown time"


def as_json(config: Config, paths: RunPaths) -> dict[str, Any]:
    """Outputs by stage, jobs with their progress, and failures."""
    return {
        "outputs": {stage: {"made": made, "all": all_} for stage, (made, all_) in outputs_of(config, paths).items()},
        "jobs": [
            {"name": job.name, "state": job.state, "done": job.progress.done, "total": job.progress.total}
            | {"unit": job.progress.unit, "seconds_left": job.progress.seconds_left, **job.progress.facts}
            for job in job_states(paths)
        ],
        "failed": [{"name": name, "error": line, "log": str(log)} for name, line, log in failures(paths)],
    }
