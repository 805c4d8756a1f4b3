"""docs/gpu.md: its commands run, and its facts are those of the files that it is about."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gpu.md").read_text()
COMMANDS = re.findall(r"^(stair .*|make .*|snakemake .*)$", "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.S)), re.M)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("stair")])
def test_the_commands_of_stair(command: str) -> None:
    """Findings depend on the machine; an argument that does not exist would end with 2."""
    command = command.replace("results/tiny", "tiny")  # where no run was made
    words = [str(Path(sys.executable).with_name("stair")), *shlex.split(command)[1:]]
    shell = {"HF_ENDPOINT": "http://127.0.0.1:9", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=ROOT, env=shell, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make")])
def test_the_commands_of_make(command: str) -> None:
    """As a dry run: the arguments reach the script."""
    words = shlex.split(command.replace("<address>", "https://index").replace("<address of a wheel>", "https://wheel"))
    done = subprocess.run([*words, "-n"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert ("-m benchmarks.gpu" if words[1] == "gpu" else "DEVICE=cuda envs/pipeline.sh") in done.stdout


def test_its_versions_are_those_of_the_lock() -> None:
    lock = dict(re.findall(r"^([a-z0-9._-]+)==([^ \\;]+)", (ROOT / "envs" / "cuda.lock").read_text(), flags=re.M))
    assert f"`torch` {lock['torch']}" in PAGE
    assert f"built for CUDA {'.'.join(lock['cuda-toolkit'].split('.')[:2])}" in PAGE
    assert f"cu130torch{'.'.join(lock['torch'].split('.')[:2])}-" in PAGE
    for name in ("FLASH_ATTN_WHEEL", "CAUSAL_CONV1D_WHEEL"):
        assert name in PAGE and name in (ROOT / "envs" / "pipeline.sh").read_text()
