"""Everything that needs a GPU, in one command: `make gpu`, or

    python -m benchmarks.gpu --device cuda [--out benchmarks/gpu.md] [--only read decode] [--minutes 14]

Needs torch and Transformers, and pytest for the tests. Each part runs in a process of its own.
The page is written after every part. --device cpu runs every part at small shapes.

Exit status: 0 when every part ran and every bar is met; 1 when a part failed, was cut off, or missed
a bar; 2 when the device or torch is not there; 130 after SIGINT, SIGTERM or SIGHUP.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from benchmarks.figures import Figure, Report
from benchmarks.gpu.page import clock, judged, number, write_page
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.running import ROOT, Outcome, kill, run_parts, start

GPU_PAGE, CPU_PAGE = ROOT / "benchmarks/gpu.md", ROOT / "results/gpu-cpu.md"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MARGIN = 5.0
"""Seconds kept back for the page and the interpreter's end."""


class Terminal:
    """Prints each figure as it comes, with the time so far."""

    def __init__(self, device: str, parts: list[Part], minutes: float) -> None:
        self.device, self.parts, self.minutes = device, parts, minutes
        self.begun = time.monotonic()
        self._current: Part | None = None
        self._shown = 0
        self._next_sign = 0.0

    def watch(self, part: Part, report: Report, seconds: float, may: float) -> None:
        if part is not self._current:
            self._current, self._shown, self._next_sign = part, 0, seconds + 15.0
            number = self.parts.index(part) + 1
            self.say(f"part {number} of {len(self.parts)}: {part.name} (at most {clock(may)})")
        for figure in report.figures[self._shown :]:
            self.say(f"  {line(figure, self.device)}")
            self._next_sign = seconds + 15.0
        self._shown = len(report.figures)
        if seconds >= self._next_sign:
            self.say(f"  {part.name}: {clock(seconds)} of at most {clock(may)}")
            self._next_sign = seconds + 15.0

    def ended(self, outcome: Outcome) -> None:
        for name, _ in outcome.report.failures:
            self.say(f"  FAILED: {name}")
        if outcome.failed:
            self.say(f"  {outcome.part.name}: {outcome.status.upper()}: {outcome.reason}")

    def say(self, text: str) -> None:
        try:
            print(f"[{clock(time.monotonic() - self.begun)} of {clock(60 * self.minutes)}] {text}", flush=True)
        except OSError:  # the terminal or the pipe is gone, and the page still has to be written
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def line(figure: Figure, device: str) -> str:
    """A figure for the terminal."""
    value = f"{number(figure.value)} {figure.unit}" if figure.measured else "not measured"
    bars = "; ".join(map(str, figure.bars))
    return f"{figure.name}: {value}" + (f" ({bars}: {judged(figure, device).replace('*', '')})" if bars else "")


def machine(device: str) -> dict[str, str]:
    """The machine's facts. Ends the command with status 2 where the device is not there."""
    command = [sys.executable, "-m", "benchmarks.gpu.machine", "--device", device]
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        print("error: torch did not start within 120 s", file=sys.stderr)
        sys.exit(2)
    finally:
        kill(process)
    if process.returncode:
        print(errors.strip(), file=sys.stderr)
        sys.exit(2)
    found: dict[str, str] = json.loads(output.splitlines()[-1])
    return found


def main() -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=_device, default="cuda", metavar="{cuda,cpu}")
    parser.add_argument(
        "--out", type=Path, help="the page, or a folder for it (benchmarks/gpu.md; on a CPU results/gpu-cpu.md)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="PART", help=f"of {', '.join(names)}"
    )
    parser.add_argument("--minutes", type=float, default=14.0, help="for everything together")
    chosen = parser.parse_args()
    out = chosen.out or (GPU_PAGE if chosen.device == "cuda" else CPU_PAGE)
    if out.is_dir():  # such as a variable OUT of the environment names
        out /= GPU_PAGE.name
    if chosen.device == "cpu" and out.resolve() == GPU_PAGE:
        parser.error(f"{out} is the page of a GPU; a page made on a CPU goes elsewhere: OUT=results/gpu-cpu.md")
    for signal_number in STOPPING:
        if signal.getsignal(signal_number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(signal_number, _interrupt)
    parts = [part for part in PARTS if part.name in chosen.only]
    terminal = Terminal(chosen.device, parts, chosen.minutes)
    begun = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    facts, outcomes = dict[str, str](), list[Outcome]()

    def write() -> None:
        write_page(
            out, device=chosen.device, begun=begun, seconds=time.monotonic() - terminal.begun, facts=facts,
            outcomes=outcomes, waiting=parts[len(outcomes) :],
        )  # fmt: skip

    try:
        facts = machine(chosen.device)
        write()
        left = 60 * chosen.minutes - (time.monotonic() - terminal.begun) - MARGIN
        for outcome in run_parts(parts, chosen.device, left, terminal.watch):
            outcomes.append(outcome)
            terminal.ended(outcome)
            write()
            if outcome.interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        if facts:
            write()
        stopped = (
            f"; {out} has what was measured until then" if facts else " before the first part; nothing is measured"
        )
        with suppress(OSError):
            print(f"stopped{stopped}", file=sys.stderr)
        return 130
    failed = [outcome.part.name for outcome in outcomes if outcome.failed]
    missed = sum(outcome.missed for outcome in outcomes) if chosen.device == "cuda" else 0
    terminal.say(
        f"{len(outcomes) - len(failed)} of {len(parts)} parts ran"
        + (f", not whole: {', '.join(failed)}" if failed else "")
        + (f"; {missed} bars missed" if missed else "")
        + f"; the page is {out}"
    )
    return 1 if failed or missed else 0


def _device(name: str) -> str:
    if name not in ("cuda", "cpu"):
        raise argparse.ArgumentTypeError(
            f"{name!r} is neither cuda nor cpu; DEVICE=cuda takes the first GPU that CUDA_VISIBLE_DEVICES shows"
        )
    return name


def _interrupt(number: int, frame: FrameType | None) -> None:
    for again in STOPPING:  # the page is being written
        signal.signal(again, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
