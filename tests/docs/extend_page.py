"""The blocks of docs/extend.md, and their places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")


class Step(NamedTuple):
    """A block of the page: a whole file, or lines after a line of one."""

    file: str
    after: str | None
    content: str


def steps() -> list[Step]:
    """All blocks, in the page's order."""
    found = []
    for sentences, content in re.findall(
        r"([^`\n][^\n]*(?:\n[^\n]+)*):\n\n```(?:yaml|json|python)\n(.*?)```", PAGE, re.S
    ):
        names = re.findall(r"`([^`]+)`", " ".join(sentences.split()))
        place = re.search(r"In `([^`]+)`, after the line `([^`]+)`", " ".join(sentences.split()))
        file, after = place.groups() if place else (names[-1], None)
        found.append(Step(file, after, content))
    return found


def table_steps() -> list[Step]:
    """The blocks that add a table."""
    return [step for step in steps() if step.file.startswith(("stair/reporting", "stair/graph"))]


def put(step: Step, folder: Path) -> None:
    """Puts a block where the page says, below a folder with the project's code."""
    place = folder / step.file
    if step.after is None:
        place.write_text(step.content, encoding="utf-8")
        return
    before, line, rest = place.read_text(encoding="utf-8").partition(f"\n{step.after}\n")
    assert line, f"{step.file} has no line {step.after!r}"
    place.write_text(before + line + step.content + rest, encoding="utf-8")
