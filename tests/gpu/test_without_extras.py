"""What runs on a GPU needs torch and Transformers, and no package of the pipeline."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.gpu.absent import ABSENT, ROOT

MODULES = (
    *("stair.method", "stair.engines.transformers", "stair.models.load"),
    *(
        "stair.stages.training.objective",
        "stair.stages.training.teacher_forcing",
        "stair.stages.training.student",
    ),
    *("benchmarks.read", "benchmarks.decode", "benchmarks.loss", "benchmarks.training", "benchmarks.runtime"),
    *("benchmarks.passes", "benchmarks.replay", "benchmarks.addition"),
)


def imported(python: Path, modules: tuple[str, ...], folder: Path) -> str:
    """The errors of failing imports, all in one fresh process: importing torch takes seconds."""
    code = "\n".join(
        f"try:\n    import {module}\nexcept Exception as error:\n    print('{module}:', error)" for module in modules
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_packages_are_really_absent(bare_python: Path, tmp_path: Path) -> None:
    expected = "".join(f"{package}: No module named '{package}'\n" for package in ABSENT)
    assert imported(bare_python, ABSENT, tmp_path) == expected


def test_the_device_code_imports_without_the_pipelines_packages(bare_python: Path) -> None:
    assert imported(bare_python, MODULES, ROOT) == ""
