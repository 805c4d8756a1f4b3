"""Runs the device tests and records how many passed, failed and were skipped.

    python -m benchmarks.gpu.device_tests [--select EXPRESSION] [--json FILE]

Needs pytest besides torch and Transformers. Ignores tests/conftest.py, which needs more.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.figures import Figures

TESTS = Path(__file__).parents[2] / "tests"
KERNELS, DEVICE = TESTS / "method/triton_cases.py", TESTS / "device"


class Recorder:
    """A pytest plugin that records each test as it ends."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1
        if report.failed:
            self.figures.failed(report.nodeid, report.longreprtext)
        if report.skipped:
            self.figures.left_out(report.nodeid, str(report.longrepr[-1]))

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.counts["failed"] += 1
            self.figures.failed(report.nodeid, report.longreprtext)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--select", default="", help="run only these, as pytest's -k")
    Figures.add_argument(parser)
    chosen = parser.parse_args()
    figures = Figures(chosen.json)
    if find_spec("pytest") is None:
        figures.failed("pytest", f"pytest is not installed in {sys.executable}: install it, or name another PYTHON")
        return 1
    import pytest
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is first imported
    paths = [str(DEVICE)]
    if find_spec("triton") is not None:
        paths.insert(0, str(KERNELS))
    elif torch.cuda.is_available():
        figures.failed("kernels", f"triton is not installed in {sys.executable}: the fused read cannot run")
    else:
        figures.left_out("kernels", "the package triton is not installed")
    recorder = Recorder(figures)
    options = ["-q", "-p", "no:cacheprovider", f"--confcutdir={KERNELS.parent}", "-k", chosen.select]
    status = pytest.main([*options, *paths], plugins=[recorder])
    for outcome, count in recorder.counts.items():
        figures.add(f"tests {outcome}", count, "tests")
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        figures.failed("pytest", f"pytest ended with status {int(status)}")
    figures.finish()
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
