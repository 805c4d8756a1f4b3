"""envs/pipeline.sh with programs that only say what they are asked: which interpreter, which torch, and which kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
case "$*" in
*version_info*) echo "$VERSION" ;;
*"pip config list"*) echo "$PIP_SAYS" ;;
*"import torch;"*) echo "$TORCH" ;;
*"import torch, "*) [ -n "$KERNELS" ] || { echo "undefined symbol: _ZN3c10" >&2; exit 1; } ;;
*) echo "python $*" >> "$SAID" ;;
esac
"""
UV = '#!/bin/sh\necho "uv $*" >> "$SAID"\n'
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my project"
    shutil.copytree(ROOT / "envs", folder / "envs")
    for name, text in ((".venv/bin/python", PYTHON), (".venv/bin/uv", UV), ("bin/python3", PYTHON), ("bin/uv", UV)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def build(project: Path, code: int = 0, **shell: str) -> tuple[list[str], str]:
    """What was asked of pip and uv, and what the script prints."""
    (said := project / "said").write_text("")
    environment = {"VERSION": "3.11", "TORCH": "2.13.0 cpu", "PIP_SAYS": "", "KERNELS": ""} | shell
    environment |= {"SAID": str(said), "PATH": f"{project / 'bin'}:/usr/bin:/bin", "HOME": os.devnull}
    command = [str(project / "envs" / "pipeline.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return said.read_text().splitlines(), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ({}, f"--default-index {CPU_INDEX}"),
        ({"TORCH_INDEX": "https://own"}, "--default-index https://own"),
        ({"PIP_SAYS": "global.extra-index-url='https://own'"}, "python -m pip install"),
        ({"PIP_SAYS": ":env:.find-links='/wheels'"}, "python -m pip install"),
    ],
)
@pytest.mark.skipif(os.uname().sysname != "Linux", reason="elsewhere the default build of torch is the CPU's")
def test_torch_is_a_cpu_build_unless_the_user_has_an_index(project: Path, shell: dict[str, str], words: str) -> None:
    said, _ = build(project, TORCH="", **shell)
    (torch,) = (line for line in said if "torch==" in line)
    assert words in torch
    assert any("--require-hashes" in line for line in said)
    assert not any("torch==" in line for line in build(project)[0]), "it is kept"


def test_uv_provides_an_interpreter_in_place_of_another_version(project: Path) -> None:
    shutil.rmtree(project / ".venv")
    said, printed = build(project, code=1, VERSION="3.10")  # this uv makes no environment
    assert said[0] == "uv venv --quiet --seed --python 3.12 .venv"
    assert "python3' is Python 3.10, and this project needs 3.11 to 3.13" in printed
    (project / "bin" / "uv").write_text("#!/bin/sh\nexit 1\n")
    _, printed = build(project, code=2, VERSION="3.10")
    assert printed.splitlines()[-1].startswith("error: uv cannot download Python 3.12; install Python 3.12")


@pytest.mark.skipif(" ".join(os.uname()[::4]) != "Linux x86_64", reason="the lock is for Linux on x86-64")
def test_a_kernel_that_does_not_work_ends_the_command(project: Path) -> None:
    shell = {"DEVICE": "cuda", "TORCH": "2.13.0 13.0", "FLASH_ATTN_WHEEL": "https://host/flash_attn.whl"}
    said, printed = build(project, code=2, **shell)
    assert "error: https://host/flash_attn.whl does not fit this torch, CUDA or Python: undefined symbol" in printed
    assert said[-1].endswith("pip uninstall --quiet --python .venv/bin/python flash-attn")
    packages = (project / ".venv" / "packages.lock").read_text()
    assert "\ntorch==" in packages and "\nflash-attn==" not in packages
    _, printed = build(project, **shell | {"FLASH_ATTN_WHEEL": ""})
    assert "flash-attn is not installed, so torch computes in its place" in printed
    build(project, **shell | {"KERNELS": "1", "TORCH_INDEX": "https://older"})
    packages = (project / ".venv" / "packages.lock").read_text()
    assert "\ntorch==" not in packages and "\nnvidia-" not in packages and "\nflash-linear-attention==" in packages
