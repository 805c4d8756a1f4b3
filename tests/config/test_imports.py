"""`make lint` refuses imports against the order of folders, and circles, wherever the import stands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TWINS = {"engine", "measure", "naive", "settings", "stage", "study"}
"""Modules with the same part in several folders."""
NAMED_AFTER = {"attention", "controllers", "read_prediction", "training"}
"""Modules that have the name of a figure, a table or a section of the configuration, and that of their subject elsewhere."""


def lint(project: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The package and its contracts, in a folder of their own."""
    for package in (ROOT / "stair", ROOT / "grader" / "answer_grader"):
        shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line", "said"),
    [
        (
            "stair/stages/sessions/stage.py",
            "import stair.stages.training.loop",
            "stages.sessions is not allowed to import stair.stages.training",
        ),
        ("stair/statistics/grid.py", "import stair.config.model", "never the configuration BROKEN"),
        ("answer_grader/grading.py", "import stair.statistics.grid", "The grader is a project of its own BROKEN"),
        (
            "stair/config/model.py",
            "def late():\n    import stair.stages.data.stage",
            "stair.config is not allowed to import stair.stages",
        ),
        (
            "answer_grader/expressions/nodes.py",
            "def late():\n    import answer_grader.expressions.grammar",
            "No circle of files or folders BROKEN",
        ),
    ],
    ids=["a stage and a stage", "the configuration", "the project", "upward, in a function", "a circle, in a function"],
)
def test_a_wrong_import_is_refused(project: Path, module: str, line: str, said: str) -> None:
    path = project / module
    path.write_text(path.read_text(encoding="utf-8") + f"\n\n{line}\n", encoding="utf-8")
    done = lint(project)
    assert done.returncode == 1, done.stdout
    assert said in done.stdout


def test_a_new_folder_needs_a_place(project: Path) -> None:
    (project / "stair" / "newcomer").mkdir()
    (project / "stair" / "newcomer" / "__init__.py").write_text("", encoding="utf-8")
    done = lint(project)
    assert done.returncode == 1
    assert "newcomer" in done.stdout


def test_two_modules_of_one_name_are_twins() -> None:
    names = Counter(path.stem for path in (ROOT / "stair").rglob("*.py") if path.stem != "__init__")
    assert {name for name, count in names.items() if count > 1} == TWINS | NAMED_AFTER
