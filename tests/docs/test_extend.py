"""The steps of docs/extend.md: its blocks are put where the page says, and the result runs."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stair.config.resolve import resolve
from tests.docs.extend_page import PAGE, put, steps
from tests.workflow.conftest import BIN, ROOT

SHELL = re.search(r"```sh\n(stair reproduce .*)\n```", PAGE)
WITHOUT = tuple(word for key in ("replay", "controls", "runtime") for word in ("--set", f"{key}=null"))
"""The page does not change these studies; their jobs take a third of the time."""


def test_the_page_has_these_steps() -> None:
    assert [step.file for step in steps()] == [
        "my_model.yaml", "ours.jsonl", "my_benchmark.yaml", "my_condition.yaml",
        "stair/reporting/tables/always_solved.py", *["stair/reporting/registry.py"] * 2, "stair/graph/table_inputs.py",
        "stair/backbones/architectures/llama.py", "my_llama.yaml",
    ]  # fmt: skip


@pytest.mark.xdist_group("workflow")
@pytest.mark.timeout(300)
def test_a_model_a_benchmark_conditions_and_a_table(tmp_path: Path) -> None:
    for name in ("stair", "snakemake_logger_plugin_stair"):
        shutil.copytree(ROOT / name, tmp_path / name)  # with what Python has compiled
    for name in ("Snakefile", "config.yaml", "workflow", "profiles", "envs", "backbones"):
        (tmp_path / name).symlink_to(ROOT / name)
    for step in steps():
        put(step, tmp_path)
    assert SHELL is not None
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [*SHELL[1].split(), *WITHOUT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "results" / "my_condition" / "tables" / "always_solved.csv", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    conditions = {row["condition"] for row in rows}
    assert {"Vanilla", "STAIR", "First entries 16", "Shuffled values seed 1"} <= conditions
    assert {(row["model"], row["benchmark"]) for row in rows} == {("My model", "Ours")}
    assert all(0 <= float(row["value"]) <= 100 for row in rows)


def test_the_architectures_file_is_the_pages_and_is_enough(tmp_path: Path) -> None:
    """Without the file its models are unknown; with the page's block they are known."""
    shutil.copytree(ROOT / "stair", tmp_path / "stair", ignore=shutil.ignore_patterns("__pycache__"))
    (step,) = (step for step in steps() if step.file.endswith("llama.py"))
    file = tmp_path / step.file
    assert file.read_text(encoding="utf-8") == step.content
    code = (
        "from stair.backbones.architecture import describe; from stair.backbones.published import CONFIGS; "
        "print(describe({**CONFIGS['qwen3-4b-instruct'], 'model_type': 'llama'}).name)"
    )

    def built() -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        words = [str(BIN / "python"), "-c", code]
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    file.unlink()
    assert "unknown model_type 'llama'" in built().stderr
    file.write_text(step.content, encoding="utf-8")
    assert built().stdout == "llama\n"


def test_the_small_llama_resolves(tmp_path: Path) -> None:
    (step,) = (step for step in steps() if step.file == "my_llama.yaml")
    (tmp_path / step.file).write_text(step.content, encoding="utf-8")
    tiny = resolve(ROOT, {"run": str(tmp_path / step.file)}).models["qwen3-4b-instruct"].tiny
    assert tiny is not None and (tiny.architecture, tiny.layers) == ("llama", 12)
