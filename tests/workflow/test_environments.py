"""The Makefile's folders have the tests of its targets."""

from __future__ import annotations

import re
from pathlib import Path

from tests.workflow.conftest import ROOT


def test_make_test_faults_collects_every_marked_test() -> None:
    (folders,) = re.findall(r"pytest -m faults (.*?) -n", (ROOT / "Makefile").read_text())
    found = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.faults" in path.read_text()]
    marked = [path for path in found if path != Path(__file__)]
    assert marked and all(any(path.is_relative_to(ROOT / each) for each in folders.split()) for path in marked)
