"""The CUDA environment's compiled kernels: a wheel by its address, and a working environment where there is none."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.environment.wheels import write_wheel

ROOT = Path(__file__).parents[2]
wheel_fits = runpy.run_path(str(ROOT / "envs" / "wheel_fits.py"))["fault"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the scripts with an environment of its own, which sees this one's pip and a torch that imports fast."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "envs", folder / "envs")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    (site,) = (folder / ".venv").glob("lib/*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("from . import version\n\n__version__ = '2.13.0+cpu'\n")
    (site / "torch" / "version.py").write_text("cuda = None\n")
    return folder


def wheel(folder: Path, content: str) -> str:
    """A wheel of FlashAttention2 whose compiled part is a module with this content."""
    return str(
        write_wheel(folder, "flash_attn", "9.9", {"flash_attn/__init__.py": "", "flash_attn_2_cuda.py": content})
    )


def install(project: Path, flash: str, conv: str) -> subprocess.CompletedProcess[str]:
    shell = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    shell |= {"FLASH_ATTN_WHEEL": flash, "CAUSAL_CONV1D_WHEEL": conv, "PIP_NO_INDEX": "1"}
    command = [project / "envs" / "kernels.sh", "envs/cuda.lock"]
    done = subprocess.run(command, env=shell, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, "the environment works without the kernels" + done.stderr
    return done


def packages(project: Path) -> set[str]:
    return {path.name.partition("-")[0] for path in project.glob(".venv/lib/*/site-packages/*.dist-info")}


NAME = "https://host/flash_attn-2.8.3%2Bcu{cuda}torch{torch}cxx11abiTRUE-cp{python}-cp{python}-linux_x86_64.whl"


def test_kernels_are_installed_kept_taken_out_refused_and_left_out(project: Path, tmp_path: Path) -> None:
    """One environment for all cases, because each takes seconds."""
    broken = "raise ImportError('undefined symbol: _ZN3c105ErrorC2E')\n"
    other = NAME.format(cuda="128", torch="2.8", python="311").replace("flash_attn", "causal_conv1d")
    done = install(project, wheel(tmp_path, broken), other)
    assert "flash_attn" not in packages(project), "its name alone would choose FlashAttention2"
    assert "undefined symbol" in done.stderr
    assert "Attention takes torch's SDPA" in done.stderr
    assert "make env DEVICE=cuda FLASH_ATTN_WHEEL=<address" in done.stderr
    assert "causal-conv1d is not installed: the wheel is for torch 2.8, and torch 2.13.0" in done.stderr
    assert "Installing causal-conv1d" not in done.stdout, "nothing is downloaded"

    done = install(project, "", "")
    for name, remedy in (("flash-attn", "FLASH_ATTN"), ("causal-conv1d", "CAUSAL_CONV1D")):
        assert f"Installing {name}: " in done.stdout
        assert f"warning: {name} is not installed: it cannot be built" in done.stderr
        assert f"{remedy}_WHEEL=<address" in done.stderr

    done = install(project, wheel(tmp_path, ""), "none")
    assert "flash_attn" in packages(project)
    assert "Installing flash-attn from" in done.stdout
    assert "warning: causal-conv1d is not installed: it was not wanted." in done.stderr
    again = install(project, "none", "none")
    assert "flash-attn" not in again.stdout + again.stderr, "a working one stays"


@pytest.mark.parametrize(
    ("cuda", "torch", "python", "words"),
    [
        ("130", "2.13", "311", ""),
        ("13", "2.13", "311", ""),
        ("130", "2.1", "311", "for torch 2.1, and torch 2.13.0 is installed"),
        ("130", "2.130", "311", "for torch 2.130, and"),
        ("128", "2.13", "311", "for CUDA 12.8, and torch is built for CUDA 13.0"),
        ("12", "2.13", "311", "for CUDA 12, and"),
        ("130", "2.13", "312", "for Python 3.12, and this is Python 3.11"),
    ],
)
def test_a_wheels_name_against_the_environment(cuda: str, torch: str, python: str, words: str) -> None:
    fault = wheel_fits(NAME.format(cuda=cuda, torch=torch, python=python), "2.13.0", "13.0", "3.11")
    assert words in fault and bool(words) == bool(fault)
    assert wheel_fits("flash_attn-2.8.3-py3-none-any.whl", "2.13.0", "13.0", "3.11") == "", "its name does not say"
    assert "built for the CPU" in wheel_fits(NAME.format(cuda=130, torch="2.13", python=311), "2.13.0", "", "3.11")
