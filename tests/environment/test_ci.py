"""CI runs every tier of the Makefile but the faults that tests must find, within 42 minutes together."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^([a-z-]+) +(\d+)  (\S.*)$", (ROOT / ".ci" / "run").read_text(), flags=re.M)


def test_the_budgets_fit() -> None:
    assert len(ROWS) == len({name for name, _, _ in ROWS}) >= 8
    assert sum(int(minutes) for _, minutes, _ in ROWS) <= 42


def test_every_tier_is_run() -> None:
    targets = set(re.findall(r"^(test[a-z-]*|lint|env|reproduce):", (ROOT / "Makefile").read_text(), flags=re.M))
    commands = " ".join(command for _, _, command in ROWS)
    assert set(re.findall(r"make ([a-z-]+)", commands)) == targets - {"test-mutants"}


def test_make_test_faults_collects_every_marked_test() -> None:
    (folders,) = re.findall(r"pytest -m faults (.*?) -n", (ROOT / "Makefile").read_text())
    found = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.faults" in path.read_text()]
    marked = [path for path in found if path != Path(__file__)]
    assert marked and all(any(path.is_relative_to(ROOT / each) for each in folders.split()) for path in marked)
