"""What every layer shares is said once."""

from __future__ import annotations

import ast
from pathlib import Path

from stair.core import PLACEHOLDER, TURNS, user_message
from stair.statistics.metrics import LATER_TURNS

ROOT = Path(__file__).parents[2]


def test_a_prompt_is_filled_with_the_text_as_it_is() -> None:
    assert user_message("Solve: {problem}\nThink.", "{x} \\frac{1}{2}") == "Solve: {x} \\frac{1}{2}\nThink."


def test_the_later_turns_follow_from_the_turns_of_a_session() -> None:
    assert (TURNS, LATER_TURNS) == (4, (2, 3, 4))


def test_no_other_module_has_its_own_turns_or_fills_a_prompt() -> None:
    said = set()
    for path in sorted((ROOT / "stair").rglob("*.py")):
        if path.name == "core.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
            constant = isinstance(node, ast.Constant) and node.value == PLACEHOLDER
            if constant or (
                names in (["TURNS"], ["_TURNS"]) and isinstance(getattr(node, "value", None), ast.Constant)
            ):
                said.add(str(path.relative_to(ROOT)))
    assert said == set()
