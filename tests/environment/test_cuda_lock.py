"""The CUDA lock is current, has the CPU lock's versions, and resolves to wheels on Linux for every Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "envs" / "cuda.lock"
UV = Path(sys.executable).parent / "uv"
FROM_SOURCE = ("flash-attn", "causal-conv1d")


def uv(*words: str) -> str:
    """Runs uv; skips the test where the package index cannot be reached."""
    shell = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    command = [str(UV), "pip", *words, "--config-file", "envs/cuda-uv.toml"]
    done = subprocess.run(command, cwd=ROOT, env=shell, capture_output=True, text=True, timeout=300)
    if re.search(r"Failed to fetch|error sending request|dns error|timed out", done.stderr):
        pytest.skip(f"the package index cannot be reached: {done.stderr.strip().splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def versions(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ \\;]+)", lock.read_text(), flags=re.M))


def test_both_environments_compute_with_the_same_versions() -> None:
    cpu, cuda = versions(ROOT / "envs" / "cpu.lock"), versions(LOCK)
    assert cpu.items() <= cuda.items(), "run `make lock-cuda` after `make lock`"
    torch = re.search(r"^torch=(\S+)$", (ROOT / "envs" / "pipeline.sh").read_text(), flags=re.M)
    assert torch is not None
    assert cuda["torch"] == torch[1]
    assert {"flash-linear-attention", *FROM_SOURCE} <= cuda.keys()


def test_the_lock_is_current(tmp_path: Path) -> None:
    """Its inputs, compiled with the locked versions preferred, give the same text."""
    target = tmp_path / "cuda.lock"
    shutil.copyfile(LOCK, target)
    makefile = (ROOT / "Makefile").read_text()
    (options,) = re.findall(r"\$\(COMPILE\) (pyproject.toml envs/cuda.in .*\\\n.*) >>", makefile)
    words = options.replace("\\\n", " ").replace("--config-file envs/cuda-uv.toml", "").split()
    (shared,) = re.findall(r"^COMPILE := .* pip compile (.*)$", makefile, flags=re.M)
    uv("compile", *words, *shared.split(), "-o", str(target))
    head, _, _ = LOCK.read_text().partition("\n")
    assert f"{head}\n{target.read_text()}" == LOCK.read_text(), "run `make lock-cuda`"


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_locked_package_has_a_wheel_for_linux(tmp_path: Path, python: str) -> None:
    """But the two kernels, whose wheels a user names, and a pure Python one."""
    wheels = tmp_path / "wheels.lock"
    without = "|".join((*FROM_SOURCE, "connection-pool"))
    wheels.write_text(re.sub(rf"^({without})==.*\n(?:    --hash.*\n)*", "", LOCK.read_text(), flags=re.M))
    words = ["--dry-run", "--no-build", "--no-deps", "--require-hashes", "--target", str(tmp_path / "made")]
    words += ["--python-platform", "x86_64-manylinux_2_34", "--python-version", python, "-r", str(wheels)]
    listed = set(re.findall(r"^ \+ ([a-z0-9._-]+)==", uv("install", *words), flags=re.M))
    assert {"torch", "triton", "nvidia-cublas", "flash-linear-attention", "transformers", "snakemake"} <= listed
    assert not listed & set(FROM_SOURCE)
