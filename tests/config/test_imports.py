"""`make lint` refuses imports against the order of folders, and circles, wherever the import stands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRONG = {
    "stair/stages/sessions/stage.py": (
        "import stair.stages.training.loop",
        "stages.sessions is not allowed to import stair.stages.training",
    ),
    "stair/statistics/grid.py": ("import stair.config.model", "never the configuration BROKEN"),
    "answer_grader/grading.py": ("import stair.statistics.grid", "The grader is a project of its own BROKEN"),
    "stair/config/model.py": (
        "def late():\n    import stair.stages.data.stage",
        "stair.config is not allowed to import stair.stages",
    ),
    "answer_grader/expressions/nodes.py": (
        "def late():\n    import answer_grader.expressions.grammar",
        "No circle of files or folders BROKEN",
    ),
}
"""A stage in a stage, the configuration, the other project, upward in a function, a circle in a function."""


def lint(project: Path) -> str:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_wrong_imports_are_refused_and_a_new_folder_needs_a_place(tmp_path: Path) -> None:
    for package in (ROOT / "stair", ROOT / "grader" / "answer_grader"):
        shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, (line, _) in WRONG.items():
        path = tmp_path / module
        path.write_text(path.read_text(encoding="utf-8") + f"\n\n{line}\n", encoding="utf-8")
    told = lint(tmp_path)
    for _, said in WRONG.values():
        assert said in told
    (tmp_path / "stair" / "newcomer").mkdir()
    (tmp_path / "stair" / "newcomer" / "__init__.py").write_text("", encoding="utf-8")
    assert "newcomer" in lint(tmp_path)
