"""The environment files say the same as the lock, and the Makefile's folders have the tests of its targets."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.workflow.conftest import ROOT


def test_the_conda_environment_has_the_locks_versions() -> None:
    lock = dict(re.findall(r"^([a-z0-9_.-]+)==([^ \\;]+)", (ROOT / "envs" / "cpu.lock").read_text(), flags=re.M))
    environment = yaml.safe_load((ROOT / "envs" / "pipeline.yaml").read_text())
    pins = dict(pin.split("==") for pin in environment["dependencies"][-1]["pip"])
    torch = re.search(r"^torch=(\S+)$", (ROOT / "envs" / "pipeline.sh").read_text(), flags=re.M)
    assert torch is not None
    assert pins.pop("torch") == torch[1]
    assert pins.items() <= lock.items()


def test_make_test_faults_collects_every_marked_test() -> None:
    (folders,) = re.findall(r"pytest -m faults (.*?) -n", (ROOT / "Makefile").read_text())
    found = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.faults" in path.read_text()]
    marked = [path for path in found if path != Path(__file__)]
    assert marked and all(any(path.is_relative_to(ROOT / each) for each in folders.split()) for path in marked)
