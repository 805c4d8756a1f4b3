"""An environment belongs to its folder: a copy of the project builds its own, and never runs the other folder's code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAIR = Path(sys.executable).parent / "stair"
STUB = '#!/bin/sh\ncase "$*" in -c*) echo 3.11 ;; *) exit 7 ;; esac\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that decide on the environment, and a built one: its interpreter knows its version alone."""
    folder = tmp_path / "my project"
    for name in ("Makefile", "pyproject.toml", "grader/pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "envs", folder / "envs")
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "pyvenv.cfg").write_text(f"command = /usr/bin/python3 -m venv {folder}/.venv\n")
    (folder / ".venv" / "bin" / "python").write_text(STUB)
    (folder / ".venv" / "bin" / "python").chmod(0o755)
    (folder / ready(folder)).touch()
    return folder


def ready(folder: Path) -> str:
    """The file that says that the folder's environment is built; made again by a copy of the folder."""
    command = ["make", "-n", "env"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return "".join(re.findall(r"^touch (\S+)$", told, flags=re.M))


def test_a_copied_or_moved_environment_is_built_again(project: Path, tmp_path: Path) -> None:
    stub = tmp_path / "python"
    stub.write_text(STUB)
    stub.chmod(0o755)

    def build(folder: Path) -> str:
        shell = {"PYTHON": str(stub), "PATH": "/usr/bin:/bin"}
        command = [str(folder / "envs" / "pipeline.sh")]
        return subprocess.run(command, env=shell, capture_output=True, text=True, check=False).stdout

    assert not ready(project)
    assert "another folder" not in build(project) and (project / ".venv" / "bin" / "python").exists()
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    assert ready(copy)
    assert "another folder" in build(copy) and not (copy / ".venv").exists()
    assert (project / ".venv").exists()


def test_another_checkouts_environment_is_refused(tmp_path: Path) -> None:
    for name in ("Snakefile", "config.yaml", "stair/config/paths.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run([STAIR, "reproduce"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"{tmp_path} has code of its own, but" in line and f"that of {ROOT}; run `make env` there" in line


def test_a_clone_that_converts_line_ends_keeps_those_of_linux(tmp_path: Path) -> None:
    """As of Git for Windows, also below WSL: a script with other line ends does not run."""
    for name in (".gitattributes", "envs/pipeline.sh"):
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "project" / name)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a", "-c", "core.autocrlf=true")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "files")):
        subprocess.run([*git, *words], cwd=tmp_path / "project", check=True)
    subprocess.run([*git, "clone", "-q", "project", "clone"], cwd=tmp_path, check=True)
    assert b"\r" not in (tmp_path / "clone" / "envs" / "pipeline.sh").read_bytes()
