"""docs/grading.md: its examples print what the page says, with sympy as the only package."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "grading.md").read_text(encoding="utf-8")
PACKAGES = ("sympy", "mpmath")


def fenced(kind: str) -> list[str]:
    """The page's code blocks of one kind."""
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a copy: the grader, sympy and mpmath, and no other package."""
    folder = tmp_path / "packages"
    (folder / "stair").mkdir(parents=True)
    (folder / "stair" / "__init__.py").symlink_to(ROOT / "stair" / "__init__.py")
    (folder / "stair" / "grading").symlink_to(ROOT / "stair" / "grading")
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (folder / name).symlink_to(Path(spec.origin).parent)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run_python(code: str, environment: dict[str, str]) -> str:
    """What a fresh interpreter without site packages prints."""
    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_example_prints_the_documented_lines(bare: dict[str, str]) -> None:
    (example,) = fenced("python")
    (printed,) = fenced("text")
    assert run_python(example, bare) == printed


def test_the_documented_file_is_scored_as_documented(tmp_path: Path, bare: dict[str, str]) -> None:
    responses, scored = fenced("json")
    (tmp_path / "responses.jsonl").write_text(responses, encoding="utf-8")
    command = (
        "from pathlib import Path; from stair.grading.json_lines import score_file; "
        f"score_file(Path({str(tmp_path / 'responses.jsonl')!r}), Path({str(tmp_path / 'scored.jsonl')!r}))"
    )
    run_python(command, bare)
    lines = (tmp_path / "scored.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in scored.splitlines()]


def test_importing_the_grader_loads_nothing_else_of_the_package(bare: dict[str, str]) -> None:
    code = "import sys, stair.grading; print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('stair.')}))"
    assert run_python(code, bare) == "grading\n"
