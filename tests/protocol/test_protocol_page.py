"""docs/protocol.md names a test for every sentence; the tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "protocol.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)


def named_in(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_listed_test_exists() -> None:
    assert len(NAMED) > 50
    missing = [f"{file}::{name}" for file, name in NAMED if not (TESTS / file).is_file() or name not in named_in(file)]
    assert missing == []


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.split("## Conditions as data")[0].splitlines() if line.startswith("| ")]
    without = [row for row in rows if "::" not in row and not row.startswith(("| the paper says", "| promise"))]
    assert len(rows) > 50
    assert without == []


def test_every_test_of_the_appendices_is_listed() -> None:
    for file in ("protocol/test_appendix_c2.py", "protocol/test_appendix_b1.py"):
        written = {name for name in named_in(file) if name.startswith("test_")}
        assert written - {name for where, name in NAMED if where == file} == set()
