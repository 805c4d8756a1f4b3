"""The steps of docs/extend.md: its blocks are put where the page says, and the result runs."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stair.cli.warm import warm_process
from tests.docs.extend_page import PAGE, put, steps
from tests.workflow.conftest import BIN, ROOT

COMMANDS = re.findall(r"```sh\n(stair reproduce .*)\n```", PAGE)
WITHOUT = tuple(word for key in ("replay", "controls", "runtime") for word in ("--set", f"{key}=null"))
"""The page does not change these studies; their jobs take a third of the time."""


@pytest.mark.timeout(400)
def test_a_model_a_benchmark_conditions_a_table_and_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stair", "snakemake_logger_plugin_stair", "workflow"):
        shutil.copytree(ROOT / name, tmp_path / name)  # with what Python has compiled
    shutil.copyfile(ROOT / "Snakefile", tmp_path / "Snakefile")
    for name in ("config.yaml", "profiles", "envs", "backbones"):
        (tmp_path / name).symlink_to(ROOT / name)
    for step in steps():
        put(step, tmp_path)
    (tmp_path / "stair" / "stages" / "lengths" / "__init__.py").touch()
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}

    def call(*words: str) -> str:
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=350, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    monkeypatch.chdir(tmp_path)
    with warm_process(environment):  # imports the copy once for both commands
        for command in COMMANDS:
            call(*command.split(), *WITHOUT)
        assert "made by measure_lengths mine" in call("stair", "why", "results/my_condition/lengths/mine.csv", "--full")
    run = tmp_path / "results" / "my_condition"
    rows = rows_of(run / "tables" / "always_solved.csv")
    conditions = {row["condition"] for row in rows}
    assert {"Vanilla", "STAIR", "First entries 16", "Shuffled values seed 1"} <= conditions
    assert {(row["model"], row["benchmark"]) for row in rows} == {("My model", "Ours")}
    assert all(0 <= float(row["value"]) <= 100 for row in rows)
    measured = rows_of(run / "lengths" / "mine.csv")
    assert {row["condition"] for row in measured} >= {"vanilla", "native", "stair", "first_entries-16", "shuffled-1"}
    assert all(0 < float(row["median"]) <= int(row["greatest"]) <= 24 for row in measured)


def rows_of(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8") as handle:
        return list(csv.DictReader(handle))
