"""The CUDA environment's compiled kernels: a wheel by its address, and a working environment where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the scripts with an environment of its own, which sees this one's torch and pip."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "envs", folder / "envs")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    (site,) = (folder / ".venv").glob("lib/*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def wheel(folder: Path, name: str, extension: str, content: str) -> str:
    """A wheel of a package whose compiled part is a module with this content."""
    path, metadata = folder / f"{name}-9.9-py3-none-any.whl", f"{name}-9.9.dist-info"
    files = {
        f"{name}/__init__.py": "",
        f"{extension}.py": content,
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{metadata}/RECORD", "".join(f"{file},,\n" for file in (*files, f"{metadata}/RECORD")))
    return str(path)


def install(project: Path, flash: str, conv: str) -> subprocess.CompletedProcess[str]:
    shell = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    shell |= {"FLASH_ATTN_WHEEL": flash, "CAUSAL_CONV1D_WHEEL": conv, "PIP_NO_INDEX": "1"}
    command = [project / "envs" / "kernels.sh", "envs/cuda.lock"]
    done = subprocess.run(command, env=shell, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, "the environment works without the kernels" + done.stderr
    return done


def packages(project: Path) -> set[str]:
    return {path.name.partition("-")[0] for path in project.glob(".venv/lib/*/site-packages/*.dist-info")}


def test_a_wheel_is_installed_once(project: Path, tmp_path: Path) -> None:
    done = install(project, wheel(tmp_path, "flash_attn", "flash_attn_2_cuda", ""), "none")
    assert "flash_attn" in packages(project)
    assert "Installing flash-attn from" in done.stdout
    assert "warning: causal-conv1d is not installed: it was not wanted." in done.stderr
    again = install(project, "none", "none")
    assert "flash-attn" not in again.stdout + again.stderr, "a working one stays"


def test_a_wheel_of_another_torch_is_taken_out_again(project: Path, tmp_path: Path) -> None:
    broken = "raise ImportError('undefined symbol: _ZN3c105ErrorC2E')\n"
    done = install(project, wheel(tmp_path, "flash_attn", "flash_attn_2_cuda", broken), "none")
    assert "flash_attn" not in packages(project), "its name alone would choose FlashAttention2"
    assert "undefined symbol" in done.stderr
    assert "Attention takes torch's SDPA" in done.stderr
    assert "make env DEVICE=cuda FLASH_ATTN_WHEEL=<address" in done.stderr


def test_without_a_wheel_and_without_the_index(project: Path) -> None:
    done = install(project, "", "")
    for name, remedy in (("flash-attn", "FLASH_ATTN"), ("causal-conv1d", "CAUSAL_CONV1D")):
        assert f"Installing {name}: " in done.stdout
        assert f"warning: {name} is not installed: it cannot be built" in done.stderr
        assert f"{remedy}_WHEEL=<address" in done.stderr
