"""The environment files say the same as the lock."""

from __future__ import annotations

import re

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
