"""The commands that docs and docstrings give for benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_benchmarks_run_as_modules() -> None:
    """A file of a package finds the package's other modules only where the project is installed."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/**/*.py"), ROOT / "Makefile"]
    found = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.search(r"python\S* benchmarks/", line)
    ]
    assert found == []
    given = {
        name
        for page in pages
        for name in re.findall(r"python\S* -m benchmarks\.(\w+)", page.read_text(encoding="utf-8"))
    }
    assert given
    assert [name for name in sorted(given) if not list((ROOT / "benchmarks").glob(f"{name}*"))] == []
