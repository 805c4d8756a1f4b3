from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One line on one property of the machine."""

    topic: str
    """shell, devices, packages, settings, attention, disk, hub, slurm, sglang."""
    level: Level
    text: str
    remedy: str = ""
    """A command, for warnings and errors."""


def output_of(command: list[str], seconds: float = 5.0) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program; 124 if it does not end in time, 127 if it does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return 124, "", f"no answer within {seconds:.0f} s"
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
