"""A change of code runs again what is cheap and depends on it, and never what generates."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stair.cli.warm import warm_process
from stair.records.keys import PROTOCOL_VERSION
from tests.workflow.conftest import ROOT, SMOKE, assert_ran, contents, environment, planned, receipts
from tests.workflow.smoke_jobs import (
    ANSWERS,
    BENCHMARK,
    EVERY_JOB,
    ROLLOUTS,
    SCORES,
    STATISTICS,
    lasting,
    names,
)

pytestmark = pytest.mark.timeout(300)

PROTOCOL = {*ROLLOUTS, *ANSWERS}
EMBEDDED = {*names("raw", "math500", "training_pool"), *BENCHMARK}
RAISED = (f"PROTOCOL_VERSION = {PROTOCOL_VERSION}", f"PROTOCOL_VERSION = {PROTOCOL_VERSION + 1}")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the code, which the workflow then uses in place of the installed one."""
    folder = tmp_path / "code"
    for name in ("stair", "snakemake_logger_plugin_stair", "grader/answer_grader"):
        shutil.copytree(ROOT / name, folder / Path(name).name)
    (folder / "backbones").symlink_to(ROOT / "backbones")
    return folder


def jobs_with(package: Path, run: Path, *targets: str) -> set[str]:
    """What would run with a copy of the code."""
    return planned(run, *targets, more={"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"})


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def test_code_that_generates_runs_nothing_that_generates(finished_run: Path, package: Path) -> None:
    """All changes at once: if one of them triggers a job, the test fails."""
    for file in (
        "engines/transformers/engine.py",
        "stages/training/loop.py",
        "stages/rollouts/stage.py",
        "paper/make.py",
    ):
        append(package / "stair" / file, "\nADDED = 1\n")
    found = jobs_with(package, finished_run)
    assert lasting(found) == set() and found == EVERY_JOB - lasting(EVERY_JOB)


def change_file(package: Path, file: str, before: str, after: str) -> None:
    """Replaces a text of a file, or adds one at its end."""
    path = package / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after) if before else text + after)


@pytest.mark.parametrize(
    ("file", "before", "after", "expected"),
    [
        ("stair/records/keys.py", *RAISED, PROTOCOL),
        ("stair/tiny/settings.py", "EMBEDDED_VERSION = 3", "EMBEDDED_VERSION = 4", EMBEDDED),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith(".py") else "",
)
def test_a_change_of_a_version(
    finished_run: Path, package: Path, file: str, before: str, after: str, expected: set[str]
) -> None:
    change_file(package, file, before, after)
    assert lasting(jobs_with(package, finished_run)) == lasting(expected)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("answer_grader/expressions/__init__.py", SCORES),
        ("answer_grader/worker.py", SCORES),
        ("stair/stages/evaluation/scores.py", SCORES),
        ("stair/stages/replay/analysis/geometry.py", STATISTICS),
        ("stair/paper/report/page.html.jinja", set()),
    ],
)
def test_a_change_of_code(finished_run: Path, package: Path, file: str, expected: set[str]) -> None:
    """Scores and statistics, which take longer, depend on their own code alone; what shows results, on all."""
    append(package / file, "\n")
    found = jobs_with(package, finished_run)
    assert lasting(found) == lasting(expected) and found >= EVERY_JOB - lasting(EVERY_JOB)


def run_with(package: Path, folder: Path, *words: str) -> None:
    """Runs Snakemake on the smoke run with a copy of the code; its jobs fork from one process that has imported the copy."""
    shell = environment() | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), *words, "--config", f"run={SMOKE}"]
    with warm_process(shell):
        subprocess.run(command, cwd=folder, env=shell, capture_output=True, check=True)


def test_what_a_dry_run_says_of_code_is_what_runs(copied_run: Path, package: Path) -> None:
    """Responses on disk are scored again."""
    results = copied_run / "results" / "smoke"
    change_file(package, "answer_grader/grading.py", "", "\nADDED = 1\n")
    expected = jobs_with(package, copied_run, "scores")
    assert expected == {job for job in SCORES if job.startswith("score_condition ")}
    before, responses = receipts(results), contents(results, "responses/**/*.parquet")
    run_with(package, copied_run, "scores")
    assert_ran(results, before, expected)
    assert contents(results, "responses/**/*.parquet") == responses
