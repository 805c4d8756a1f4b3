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


def steps(section: str = "") -> list[Step]:
    """The blocks of the page, or of one of its sections, in the page's order."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0] if section else PAGE
    found = []
    for sentences, content in re.findall(
        r"([^`\n][^\n]*(?:\n[^\n]+)*):\n\n```(?:yaml|json|python)\n(.*?)```", text, re.S
    ):
        names = re.findall(r"`([^`]+)`", " ".join(sentences.split()))
        place = re.search(r"In `([^`]+)`, after the line `([^`]+)`", " ".join(sentences.split()))
        file, after = place.groups() if place else (names[-1], None)
        found.append(Step(file, after, content))
    return found


def table_steps() -> list[Step]:
    """The blocks that add a table."""
    return steps("A table")


def put(step: Step, folder: Path) -> None:
    """Puts a block where the page says, below a folder with the project's code."""
    place = folder / step.file
    if step.after is None:
        place.parent.mkdir(exist_ok=True)
        place.write_text(step.content, encoding="utf-8")
        return
    lines = place.read_text(encoding="utf-8").splitlines(keepends=True)
    found = [number for number, line in enumerate(lines) if line.strip() == step.after]
    assert len(found) == 1, f"{step.file} has {len(found)} lines {step.after!r}"
    lines.insert(found[0] + 1, step.content)
    place.write_text("".join(lines), encoding="utf-8")
