"""Runs the device tests and records how many passed, failed and were skipped.

    python -m benchmarks.gpu.device_tests [--select EXPRESSION] [--json FILE]

Needs pytest besides torch and Transformers. Ignores tests/conftest.py, which needs more.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.version import Version

from benchmarks.figures import Figures

TESTS = Path(__file__).parents[2] / "tests"
KERNELS, OBJECTIVE, DEVICE = (
    TESTS / "method/triton_cases.py",
    TESTS / "training/test_low_precision.py",
    TESTS / "device",
)


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


def without_kernels(gpu: bool) -> str | None:
    """Why the kernels cannot run here, or None."""
    if find_spec("triton") is None:
        return f"triton is not installed in {sys.executable}"
    if gpu:
        return None
    try:
        old = Version(version("triton")) < Version("3.7") and Version(version("numpy")) >= Version("2.4")
    except PackageNotFoundError:  # a distribution of another name, such as pytorch-triton
        return None
    return "Triton's interpreter before 3.7 does not run with numpy from 2.4 on" if old else None


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

    gpu = torch.cuda.is_available()
    if not gpu:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is first imported
    paths, reason = [str(KERNELS), str(OBJECTIVE), str(DEVICE)], without_kernels(gpu)
    if reason is not None:
        paths.pop(0)
        (figures.failed if gpu else figures.left_out)("kernels", reason)
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
