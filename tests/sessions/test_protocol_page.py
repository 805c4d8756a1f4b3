"""docs/protocol.md names a test, or a file of tests, for every sentence; they exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "protocol.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w./]+\.py)::(\w+)`", PAGE)


def named_in(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_listed_test_exists() -> None:
    assert len(NAMED) > 50
    missing = [f"{file}::{name}" for file, name in NAMED if not (TESTS / file).is_file() or name not in named_in(file)]
    assert missing == []


def test_every_sentence_names_a_test() -> None:
    listed = PAGE.partition("\n## The paper's sentences and their tests\n")[2]
    sentences = [item for item in re.split(r"\n\n|\n(?=- )", listed) if item.startswith("- ")]
    assert len(sentences) > 50
    assert [one for one in sentences if "::" not in one] == []


def test_every_file_of_an_appendix_is_listed() -> None:
    """Their tests have the paper's sentences as names; the page lists the files alone."""
    files = {f"sessions/{file.name}" for file in TESTS.glob("sessions/test_appendix_*.py")}
    assert files == set(re.findall(r"`(sessions/test_appendix_\w+\.py)`", PAGE))
