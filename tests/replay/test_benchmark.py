"""The benchmark of the replay at small shapes: it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures import Report
from benchmarks.gpu.parts import BY_MODULE

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("shape", ["qwen3", "qwen3_5"])
def test_the_benchmark_gives_its_figures(tmp_path: Path, shape: str) -> None:
    words = [*BY_MODULE["benchmarks.replay"].arguments("cpu"), "--shapes", shape, "--json", str(tmp_path / "figures")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.replay", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = Report.read(tmp_path / "figures")
    assert report.finished and not report.failures, report.failures
    values = {figure.name.rsplit(": ", 1)[1]: figure.value for figure in report.figures}
    assert {"prefix", "batch", "batch with probes", "one whole prompt"} < set(values)
    assert values["shared over whole"] > 0
    assert values["memory above the weights"] > 0
