"""The end of a job's log, and the line of it that explains a failure."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stair.records.files import MAKE_ROOM

NOT_STARTED = "its command did not start: the scheduler refused the job, or its node failed"
"""The reason of a failure without a log of the attempt."""
_REFUSED = re.compile(r"sbatch: error: (.+?)(?:'\.)?$", flags=re.M)
"""Lines of sbatch in a message of Snakemake's executor, which quotes them."""
_RAISED = re.compile(r"^Job submission failed with exception: (.+)", flags=re.M)
_ENDED = re.compile(r"> (\S+) 2>&1' (?:died with <Signals\.\w+: (\d+)>|returned non-zero exit status (\d+))")
"""Snakemake's message of a failed command: the job's log, and the signal or the exit code."""
KILLED = "the system killed its process"
_STATUS = re.compile(r"SLURM status is: '(\w+)")
"""The message of Snakemake's executor on a job that Slurm calls ended."""
_RESUME = "run the same command again to resume"
_CLOCK_SECONDS = 10.0
"""How far the clocks of a driver and of a file server may differ."""
_LITTLE_BYTES, _FEW_FILES = 100e6, 100
"""A disk with less room is nearly full. A failed job may have removed its unfinished files."""
_LINES = 5
_BYTES = 50_000
_OWN = "stair: error:"
_SLURM = re.compile(r"^(slurmstepd|srun|slurmd)\b(?!.*Exited with exit code).*(error|killed)", flags=re.I)
"""Slurm's own lines in a job's log: memory, time limit, a lost node. Later lines of Snakemake explain nothing."""


def refusal(message: str) -> str:
    """Why a job was not submitted, from the message of Snakemake's executor; empty if it does not contain the reason."""
    if said := _REFUSED.findall(message):
        return f"Slurm refused the job: {'; '.join(said)}"
    raised = _RAISED.search(message)
    return f"it was not submitted: {raised[1]}" if raised else ""


def ended_process(message: str) -> tuple[str, str] | None:
    """The log of the job whose failure a message of Snakemake reports, and how its process ended."""
    if not (ended := _ENDED.search(message)):
        return None
    log, by_signal, code = ended.groups()
    number = int(by_signal or 0) or max(int(code) - 128, 0)  # a shell, and the warm process, add 128
    if number == signal.SIGKILL:
        said = f"{KILLED}; if memory ran out, use fewer --cores or a smaller batch width"
    elif number in set(signal.Signals):
        said = f"{KILLED} ({signal.Signals(number).name})"
    else:
        said = f"its process ended with exit code {code} and without a message"
    return log, f"{said}; {_RESUME}"


def ended_on_slurm(message: str) -> str:
    """How a job ended on Slurm, from the message of Snakemake's executor; empty if it does not contain Slurm's status."""
    if not (status := _STATUS.search(message)):
        return ""
    said = "its process ended without a message" if status[1] == "FAILED" else KILLED
    return f"{said} (Slurm's status: {status[1]}); {_RESUME}"


def full_disk(log: Path) -> str:
    """A sentence on the full disk of a log; empty if there is room."""
    try:
        disk = os.statvfs(log.parent)
    except OSError:
        return ""
    if disk.f_bavail * disk.f_frsize >= _LITTLE_BYTES and (not disk.f_files or disk.f_favail >= _FEW_FILES):
        return ""
    return f"the disk of {log.parent} is full or nearly full: {MAKE_ROOM}"


def _lines(path: Path) -> list[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def logs_since(began: float, logs: Iterable[Path]) -> list[Path]:
    """The logs that an attempt has written. An earlier attempt's log explains nothing.

    Args:
        began: seconds since the epoch.
        logs: the job's log, and the cluster's.
    """
    written = []
    for log in logs:
        with suppress(OSError):
            if log.stat().st_mtime >= began - _CLOCK_SECONDS:
                written.append(log)
    return written


@dataclass(frozen=True)
class Explanation:
    """What the logs of a failed job say."""

    log: Path
    line: str
    """The one line that explains it best."""
    tail: tuple[str, ...]
    own: bool = True
    """Whether the line is a command's or Slurm's error, not only the last one of a log."""


def explain(logs: Iterable[Path]) -> Explanation | None:
    """The first log with a command's error, else the first with lines of Slurm's own, else the first with text."""
    contents = [(log, lines) for log in logs if (lines := _lines(log))]
    for log, lines in contents:
        if own := [line for line in lines if line.startswith(_OWN)]:
            return Explanation(log, own[-1].removeprefix(_OWN).strip(), tuple(lines[-_LINES:]))
    for log, lines in contents:
        if slurm := [line for line in lines if _SLURM.match(line)]:
            return Explanation(log, slurm[-1], tuple(slurm[-_LINES:]))
    return next((Explanation(log, lines[-1], tuple(lines[-_LINES:]), own=False) for log, lines in contents), None)
