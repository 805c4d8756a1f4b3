"""The benchmark of the replay at small shapes: it runs, and the memory's estimate holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures import Report

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("shape", ["qwen3", "qwen3_5"])
def test_the_benchmark_gives_its_figures_and_the_memory_is_near_its_estimate(tmp_path: Path, shape: str) -> None:
    words = (
        f"--shapes {shape} --hidden 256 --head-dim 32 --layers 5 --measured 3 --prefix 700 --problems 8 --tokens 100 --rounds 1 "
        f"--no-bars --json {tmp_path / 'figures'}"
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.replay", *words.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = Report.read(tmp_path / "figures")
    assert report.finished and not report.failures, report.failures
    values = {figure.name.rsplit(": ", 1)[1]: figure.value for figure in report.figures}
    assert {"prefix", "batch", "batch with probes", "one whole prompt"} < set(values)
    assert values["shared over whole"] > 0
    assert 0.75 < values["memory, estimated over measured"] < 1.5
