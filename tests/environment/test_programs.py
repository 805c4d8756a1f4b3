"""Programs that tests need: their packages, and that CI skips no test for want of one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.programs import REQUIRED

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "envs" / "debian.sh"


def test_ci_installs_and_requires_the_programs() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert f"export {REQUIRED}=1" in text
    (groups,) = re.findall(r"envs/debian\.sh ([a-z ]+)$", text, flags=re.M)
    assert groups.split() == ["latex", "slurm"]


@pytest.mark.parametrize("words", [[], ["words"], ["latex", "words"]])
def test_an_unknown_group_is_one_line(words: list[str]) -> None:
    done = subprocess.run([str(SCRIPT), *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and "latex, slurm" in done.stderr
