"""Runs each part in a process of its own: a crash or a hang of one loses no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.figures import Report
from benchmarks.gpu.parts import Part
from stair.records.interruption import end_with_parent

ROOT = Path(__file__).parents[2]
LEAST_SECONDS = 5.0
"""With less time than this left, a part is not begun."""
KILL_SECONDS = 5.0
"""How long the end of a killed process is waited for."""

Status = Literal["ran", "failed", "cut off", "not run"]
Watch = Callable[[Part, Report, float, float], None]
"""Called while a part runs: its report so far, its seconds so far, the seconds it may take."""


@dataclass(frozen=True)
class Outcome:
    """The result of a part."""

    part: Part
    status: Status
    reason: str = ""
    seconds: float = 0.0
    report: Report = field(default_factory=Report)
    output: str = ""
    """The end of its output."""
    interrupted: bool = False
    """Whether a signal asked this command to stop while the part ran."""

    @property
    def failed(self) -> bool:
        return self.status != "ran"

    @property
    def missed(self) -> int:
        """How many bars its figures miss."""
        return sum(figure.missed for figure in self.report.figures)


def run_parts(parts: Sequence[Part], device: str, seconds: float, watch: Watch) -> Iterator[Outcome]:
    """Run the parts one after another within `seconds`, and yield each outcome as it is known.

    A part may take its own share and what earlier parts left over, never a later part's share.
    A KeyboardInterrupt ends the running part, whose outcome is the last one.
    """
    end = time.monotonic() + seconds
    for number, part in enumerate(parts):
        left = end - time.monotonic()
        may = max(left - sum(later.seconds for later in parts[number + 1 :]), min(left, part.seconds))
        if may < LEAST_SECONDS:
            yield Outcome(part, "not run", "no time is left")
        else:
            outcome = _run(part, device, may, watch)
            yield outcome
            if outcome.interrupted:
                return


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start a command that dies with this process, in a session of its own for `kill`."""
    return subprocess.Popen(
        command, text=True, cwd=ROOT, start_new_session=True, preexec_fn=end_with_parent, **options
    )  # fmt: skip


def kill(process: subprocess.Popen[str]) -> bool:
    """Kill a process that `start` started, if it runs, and all that it started.

    Returns False when it has not ended after `KILL_SECONDS`: a process that waits for a hung driver
    cannot be killed.
    """
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            return False
    return True


def _run(part: Part, device: str, seconds: float, watch: Watch) -> Outcome:
    command = [sys.executable, "-m", part.module, *part.arguments(device)]
    with tempfile.TemporaryDirectory() as folder:
        figures, log = Path(folder) / "figures", Path(folder) / "log"
        begun = time.monotonic()
        interrupted = False
        with open(log, "w") as opened:
            process = start(
                [*command, "--json", str(figures)], stdout=opened, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=_environment(device),
            )  # fmt: skip
            try:
                while process.poll() is None and time.monotonic() - begun < seconds:
                    watch(part, Report.read(figures), time.monotonic() - begun, seconds)
                    time.sleep(0.2)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                cut = process.poll() is None
                ended = kill(process)
        took = time.monotonic() - begun
        report = Report.read(figures)
        watch(part, report, took, seconds)
        output = log.read_text(encoding="utf-8", errors="replace")
    if cut:
        status: Status = "cut off"
        reason = (
            f"interrupted after {took:.0f} s" if interrupted else f"stopped after {seconds:.0f} s, the time that it had"
        )
        reason += "" if ended else "; it did not end when killed, and may hold memory of the GPU"
    else:
        status, reason = _judge(process.returncode, report)
    return Outcome(part, status, reason, took, report, _end(output.splitlines()), interrupted)


def _judge(code: int, report: Report) -> tuple[Status, str]:
    if code < 0:
        return "failed", f"killed by signal {signal.Signals(-code).name}"
    if not report.finished:
        return "failed", f"ended early with exit status {code}"
    if report.failures:
        return "failed", f"{len(report.failures)} of its cases failed"
    return "ran", ""


def _environment(device: str) -> dict[str, str]:
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    changed = {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if device == "cpu":
        changed["CUDA_VISIBLE_DEVICES"] = ""
    return {**os.environ, **changed}


def _end(lines: Iterable[str], most: int = 60) -> str:
    return "\n".join(list(lines)[-most:])
