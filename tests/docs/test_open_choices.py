"""docs/open_choices.md is held to the configuration and to the project's files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from stair.config import resolve
from stair.config.resolve import value_at

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "open_choices.md"
TEXT = PAGE.read_text(encoding="utf-8")
CONFIG = resolve(ROOT, {"run": "paper"})

CHOICE = re.compile(r"^- \*\*(.+?)\.\*\*", re.MULTILINE)
KEYS = re.compile(r"\bKeys?: (.*)", re.DOTALL)
KEY = re.compile(r"`([a-z][\w.\-]*?(?:MODEL|CONTROLLER)?[\w.\-]*)`(?: = `([^`]+)`)?")
FILES = re.compile(r"\bFiles?: (.*)", re.DOTALL)
NAMES = {"MODEL": CONFIG.models, "CONTROLLER": CONFIG.controllers}
"""What stands for every key of a mapping."""


def choices() -> dict[str, str]:
    """Each choice on one line, by its name."""
    items = [" ".join(one.split()) for one in re.split(r"\n\n|\n(?=- )", TEXT)]
    return {found[1]: one for one in items if (found := CHOICE.match(one))}


def named_keys() -> Iterator[tuple[str, str | None]]:
    """Every key that the page names, with the default beside it, if there is one."""
    for text in choices().values():
        if (keys := KEYS.search(text)) is not None:
            for key, default in KEY.findall(keys[1]):
                yield from ((each, default or None) for each in expanded(key))


def expanded(key: str) -> list[str]:
    """`models.MODEL.dtype` for every model."""
    for name, items in NAMES.items():
        if name in key.split("."):
            return [key.replace(name, item) for item in items]
    return [key]


def test_the_page_has_the_choices() -> None:
    assert len(choices()) == len(CHOICE.findall(TEXT)) >= 30


def test_every_choice_says_where_it_is_made_and_what_the_paper_says() -> None:
    without = [name for name, text in choices().items() if not KEYS.search(text) and not FILES.search(text)]
    assert without == []
    uncited = [
        name
        for name, text in choices().items()
        if not re.search(r"\b(?:(?:appendix|appendices) [A-C]\.\d|section \d\.\d)", text)
    ]
    assert uncited == []


def test_every_key_exists_and_has_the_default_that_is_named() -> None:
    named = dict.fromkeys(named_keys())
    assert len(named) > 50
    values = {key: yaml.safe_load(value_at(CONFIG, key)) for key, _ in named}
    assert [(key, values[key]) for key, default in named if default and values[key] != yaml.safe_load(default)] == []


def test_every_file_that_is_named_exists() -> None:
    lists = [found[1] for text in choices().values() if (found := FILES.search(text))]
    named = [file for one in lists for file in re.findall(r"`([\w./]+)`", one)]
    assert len(named) >= len(lists) > 10
    assert [file for file in named if not (ROOT / file).is_file()] == []
