"""References to the paper: the place exists in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLACES = {"2", "3", "4", "A", "B", "C", "D"}
COUNTS = dict(zip("234ABCD", (3, 3, 5, 6, 5, 4, 4), strict=True))
PLACES |= {f"{part}.{number}" for part, count in COUNTS.items() for number in range(1, count + 1)}
"""The paper's sections that have subsections, and its appendices."""

EQUATIONS = {str(number) for number in range(1, 22)}
"""The paper's numbered equations."""

OWN = Path(__file__).relative_to(ROOT).as_posix()
DATA = ("stair/paper/paper_values.csv", OWN)
"""Files that quote other texts, and this list."""

TEXT = ("", ".cff", ".jinja", ".json", ".md", ".py", ".rst", ".smk", ".toml", ".yaml")
"""How the names of texts end."""

GAP = r"\s+(?:# )?"
"""Between two words, which can stand on two lines of prose or of a comment."""

MORE = rf"(?:,{GAP}|{GAP}and{GAP}|{GAP}to{GAP})"
LETTERED = re.compile(rf"\b[Aa]ppendi(?:x|ces){GAP}([A-Z](?:\.\d+)?\b(?:{MORE}[A-Z](?:\.\d+)?\b)*)")
NUMBERED = re.compile(rf"\b[Ss]ections?{GAP}(\d(?:\.\d)?(?:{MORE}\d(?:\.\d)?)*)")
EQUATION = re.compile(rf"\bEqs?\.{GAP}(\d+(?:{MORE}\d+)*)")


def texts() -> Iterator[tuple[str, list[str]]]:
    """Every text that belongs to the project, by lines."""
    folders = (
        "benchmarks",
        "docs",
        "grader/answer_grader",
        "profiles",
        "snakemake_logger_plugin_stair",
        "stair",
        "tests",
        "workflow",
    )
    inside = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    for path in sorted([*ROOT.glob("*.*"), ROOT / "Makefile", ROOT / "Snakefile", *inside]):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and path.suffix in TEXT and name not in DATA:
            yield name, path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("pattern", "places"),
    [(LETTERED, PLACES), (NUMBERED, PLACES), (EQUATION, EQUATIONS)],
    ids=["appendices", "sections", "equations"],
)
def test_every_place_of_the_paper_that_is_named_exists(pattern: re.Pattern[str], places: set[str]) -> None:
    named = [
        (file, place)
        for file, lines in texts()
        for match in pattern.finditer("\n".join(lines))
        for place in re.split(MORE, match[1])
    ]
    assert len(named) > 10
    assert [each for each in named if each[1] not in places] == []
