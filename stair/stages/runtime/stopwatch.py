"""Times between marks, by device events on a GPU, and the peak of memory."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch

Memory = Literal["allocated", "resident"]
"""The tensors that CUDA's allocator held, or the memory that the process held."""


class Stopwatch:
    """Marks on one device; `start` resets the peak of memory.

    On a GPU the marks are events on the current stream: they wait for nothing. On a CPU they are `time.perf_counter`'s; the peak
    is Linux's high-water mark of the process, None elsewhere.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.memory: Memory = "allocated" if device.type == "cuda" else "resident"
        self._marks: list[Any] = []  # events on a GPU, else seconds
        self._resettable = False

    def start(self) -> None:
        """Wait for the device, reset the peak and set the first mark."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            self._resettable = False
            with suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
                self._resettable = True
        self._marks = []
        self.mark()

    def mark(self) -> None:
        if self.device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(self.device))
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Return the seconds of each part, then those from the first mark to the last."""
        marks = self._marks
        pairs = [*pairwise(marks), (marks[0], marks[-1])]
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return [first.elapsed_time(last) / 1e3 for first, last in pairs]
        return [last - first for first, last in pairs]

    def peak_bytes(self) -> int | None:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        if not self._resettable:
            return None
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)
