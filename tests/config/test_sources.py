"""The digest of code: what it follows, and what it ignores."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config import sources

FILES = {
    "house/__init__.py": "",
    "house/used.py": '"""A module."""\nfrom house.deep import lower\n\n\ndef area(x):\n    """Squares."""\n    return x * x\n',
    "house/deep/__init__.py": "",
    "house/deep/lower.py": "import house.late\nVALUE = 1\n",
    "house/late.py": "VALUE = 2\n",
    "house/unused.py": "VALUE = 3\n",
}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in place of the real one."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sources, "_ROOT", tmp_path)
    monkeypatch.setattr(sources, "_PACKAGE", "house")
    return tmp_path / "house"


def digest() -> str:
    sources.modules_digest.cache_clear()
    try:
        return sources.modules_digest("house.used")
    finally:
        sources.modules_digest.cache_clear()


@pytest.mark.parametrize(
    ("file", "old", "new", "follows"),
    [
        ("used.py", "x * x", "x * x * x", True),
        ("used.py", "def area(x):", "def area(y, x):", True),
        ("deep/lower.py", "VALUE = 1", "VALUE = 11", True),
        ("late.py", "VALUE = 2", "VALUE = 22", True),
        ("deep/__init__.py", "", "import house.unused\n", True),
        ("unused.py", "VALUE = 3", "VALUE = 33", False),
        ("used.py", "x * x", "x * x  # a square", False),
        ("used.py", "Squares.", "Squares a number.", False),
        ("used.py", "A module.", "Another text.", False),
        ("used.py", "return x * x", "\n    return (\n        x * x\n    )", False),
    ],
)
def test_the_digest_follows_code_and_ignores_comments(
    house: Path, file: str, old: str, new: str, follows: bool
) -> None:
    before = digest()
    text = (house / file).read_text()
    assert old in text
    (house / file).write_text(text.replace(old, new, 1) if old else new)
    assert (digest() != before) == follows


def test_cheap_rules_reach_the_code_that_makes_their_numbers() -> None:
    """The digests of scores and tables are made over the modules that decide verdicts and numbers."""
    for module, reached in (
        ("stair.evaluation.scores", "stair.scoring.extraction"),
        ("stair.artifacts.stage", "stair.scoring.metrics"),
    ):
        seen = sources.modules_reached(module)
        assert reached in seen
        assert not any(name.startswith("stair.engines.transformers") for name in seen)
