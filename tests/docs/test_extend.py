"""The steps of docs/extend.md. tests/workflow/test_extend.py runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.docs.extend_page import put, steps, table_steps
from tests.workflow.conftest import BIN, ROOT


def test_the_page_has_these_steps() -> None:
    assert [step.file for step in steps()] == [
        "my_model.yaml", "ours.jsonl", "my_benchmark.yaml", "my_condition.yaml",
        "stair/paper/tables/always_solved.py", "stair/paper/exhibits.py",
        "workflow/rules/lengths.smk", "stair/stages/lengths/stage.py", "stair/pipeline/jobs.py",
        "Snakefile", "changed.yaml", "stair/models/architecture.py", "small_qwen2.py", "my_qwen2.yaml",
    ]  # fmt: skip


def test_a_table_has_two_places_and_a_stage_four() -> None:
    assert len({step.file for step in table_steps()}) == 2
    assert len({step.file for step in steps("A stage")}) == 4


def test_an_architecture_is_one_row(tmp_path: Path) -> None:
    """The row, a small random model of it, and a run that passes the checks of its start."""
    for name in ("stair", "workflow", "backbones"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("config.yaml", "Snakefile"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for step in steps("An architecture"):
        put(step, tmp_path)
    (tmp_path / "check.py").write_text(CHECK)
    for file in ("small_qwen2.py", "check.py"):
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        subprocess.run([BIN / "python", file], cwd=tmp_path, env=environment, check=True)


CHECK = """
from pathlib import Path
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.models.model_folder import read_architecture
from stair.pipeline.input_checks import input_faults, refuse

config = resolve(Path(), {"run": "my_qwen2.yaml"})
refuse(input_faults(config, RunPaths.of(config)))
assert read_architecture(Path(config.models["qwen3-4b-instruct"].path)).name == "qwen2"
"""
