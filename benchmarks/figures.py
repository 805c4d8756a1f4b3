"""Figures of a benchmark as JSON lines, which another program reads while the benchmark runs.

A line is `{"figure": ...}`, `{"failure": ...}` or `{"left_out": ...}`. The last one is
`{"finished": true}`.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_NO_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")


@dataclass(frozen=True)
class Bar:
    """A limit of a figure. A target is a limit that the project aims at and does not promise."""

    limit: float
    at_least: bool = False
    target: bool = False

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'target ' if self.target else ''}{'at least' if self.at_least else 'at most'} {self.limit:,g}"


@dataclass(frozen=True)
class Figure:
    """One measured number. A value that is not a number (NaN) was not measured."""

    name: str
    value: float
    unit: str
    bars: tuple[Bar, ...] = ()
    note: str = ""

    @property
    def measured(self) -> bool:
        return not math.isnan(self.value)

    @property
    def missed(self) -> bool:
        """Whether a bar is missed; targets do not count."""
        return self.measured and any(not bar.target and not bar.met(self.value) for bar in self.bars)


class Figures:
    """Writes figures to a file. Without a path it writes nothing, and a failing case raises."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def add_argument(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", type=Path, metavar="FILE", help="append each figure to FILE as one JSON line")

    def add(self, name: str, value: float, unit: str, *bars: Bar, note: str = "") -> None:
        self._write({"figure": asdict(Figure(name, float(value), unit, bars, note))})

    def left_out(self, name: str, reason: str) -> None:
        """Record that a measurement cannot be made here, which is no failure."""
        print(f"{name}: left out: {reason}", flush=True)
        self._write({"left_out": {"name": name, "text": reason}})

    def failed(self, name: str, text: str) -> None:
        """Record a failure with its traceback. An out-of-memory error becomes one line."""
        memory = [line.strip() for line in text.splitlines() if any(words in line for words in _NO_MEMORY)]
        print(f"{name}: failed\n{text}", file=sys.stderr, flush=True)
        self._write({"failure": {"name": name, "text": memory[-1] if memory else text}})

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Record an exception inside as the failure of `name`; the cases after it still run.

        After an error of the CUDA driver the process can compute nothing. That exception is
        recorded and raised.
        """
        try:
            yield
            return
        except Exception as error:
            if self._path is None:
                raise
            self.failed(name, traceback.format_exc())
            # The traceback holds the frames, and these hold tensors.
            error.__traceback__ = None
            broken = "CUDA error" in str(error) and "out of memory" not in str(error)
            if broken:
                raise
        gc.collect()
        if "torch" in sys.modules:
            import torch

            torch.cuda.empty_cache()

    def finish(self) -> None:
        """Record that every case was tried."""
        self._write({"finished": True})

    def _write(self, line: dict[str, Any]) -> None:
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as opened:
                opened.write(json.dumps(line) + "\n")


@dataclass
class Report:
    """What a benchmark has written so far."""

    figures: list[Figure] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    finished: bool = False

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read a file that a benchmark may still be writing; skip a line without its end."""
        report = cls()
        if not path.exists():
            return report
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if not line.endswith("\n"):
                break
            for kind, content in json.loads(line).items():
                if kind == "figure":
                    bars = tuple(Bar(**bar) for bar in content["bars"])
                    report.figures.append(Figure(**{**content, "bars": bars}))
                elif kind == "failure":
                    report.failures.append((content["name"], content["text"]))
                elif kind == "left_out":
                    report.left_out.append((content["name"], content["text"]))
                elif kind == "finished":
                    report.finished = True
        return report
