"""References to the paper: the place exists in it, and treats what the reference is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

TITLES = {
    "2": "Historical Computation After Task Switches",
    "2.1": "Attention to Earlier Responses and State Displacement",
    "2.2": "Interaction Responses Retain Problem-Dependent Structure",
    "2.3": "Native Continuous Reasoning Changes Answers in Both Directions",
    "3": "STAIR Re-addresses Frozen Historical Computation",
    "3.1": "A Read-only Historical K/V Bank",
    "3.2": "Query-side Re-addressing",
    "3.3": "Differential Readout and Learning",
    "4": "Experiments",
    "4.1": "Experimental Setup",
    "4.2": "Continuous Reasoning",
    "4.3": "Historical Readout from a Shared T1 History",
    "4.4": "LoRA Comparison and Joint Training",
    "4.5": "Bank Prefix and Runtime",
    "A": "Historical Replay and Response Measurements",
    "A.1": "Replay Construction",
    "A.2": "Attention and State Displacement",
    "A.3": "Interaction Energy and Cross-History Geometry",
    "A.4": "Paired Answer Transitions",
    "A.5": "Conditioning on the First History Answer",
    "A.6": "Historical Reads and Downstream MLP Responses",
    "B": "STAIR Implementation and Training",
    "B.1": "State Capture and Bank Accumulation",
    "B.2": "Auxiliary Coordinates and Exact Reads",
    "B.3": "Output Path and Prefill Scope",
    "B.4": "Session Replay and Gradient Flow",
    "B.5": "Supervision and Parameter Updates",
    "C": "Training and Evaluation Protocols",
    "C.1": "Training Settings",
    "C.2": "Sampling and Matched Conditions",
    "C.3": "Answer Scoring",
    "C.4": "Shared-history Controls and Runtime Measurements",
    "D": "Continuous Reasoning Results",
    "D.1": "Qwen3-4B Instruct",
    "D.2": "LoRA Comparison and Joint Training on AIME 2025",
    "D.3": "Qwen3.5-4B",
    "D.4": "Qwen3.5-9B",
}
"""The paper's sections that have subsections, and its appendices."""

EQUATIONS = range(1, 22)
"""The paper's numbered equations."""

SUBJECTS = {
    "A": "replay|transition|condition|neighbo|attention mass|interaction",
    "A.1": "replay|histor|design|block",
    "A.2": "attention|displacement|source categor|user.body|statistics",
    "A.3": "interaction|neighbo|energy|whiten|fold|decomposition|history pairs|pairs of histories|projection|statistics",
    "A.4": "transition|matched responses|paired",
    "A.5": "conditional|first answer|grouped|correctness",
    "A.6": "read prediction|ridge|MLP|historical reads|reads are|projection|statistics",
    "B": "STAIR|hooks|controller",
    "B.1": "bank|state|captur|replay|marker|decod|segment|thinking",
    "B.2": "position|RoPE|read|centred|smoothing",
    "B.3": "span|prefill|generation prefix|frozen weight|output projection|output path|user header",
    "B.4": "training|DAPO|clean|normalised|incomplete|session|teacher|native model|replay|four responses|pool|which texts",
    "B.5": "weights|controllers|supervis|objective|normals|N\\(0|drawn?\\b",
    "C": "protocol|settings",
    "C.1": "training|updates|first turns|LoRA|learning rate|rollouts?\\b|ends with|template|system message",
    "C.2": "session|schedule|seed|sampling|decoding|Vanilla|template|system message|generation|response|evaluation",
    "C.3": "answer|correct|verdict|scor|boxed|counts|letter|complete grid|options|AMC23|evaluat|missing|no row",
    "C.4": "control|permut|reconstruct|pairing|bank-free|shared T1|random|runtime|bank prefix|exact-token",
    "D": "by turn",
    "D.1": "by turn",
    "D.2": "by turn",
    "D.3": "by turn",
    "D.4": "by turn",
}
"""What each appendix treats: a reference to it stands near one of these words."""

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


class Reference(NamedTuple):
    """A place of the paper that a line names."""

    file: str
    line: int
    place: str
    around: str
    """The line with two before and two after it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.place}"


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


def references(pattern: re.Pattern[str]) -> list[Reference]:
    """All places that the pattern's group names."""
    found = []
    for file, lines in texts():
        text = "\n".join(lines)
        for match in pattern.finditer(text):
            number = text.count("\n", 0, match.start())
            around = "\n".join(lines[max(0, number - 2) : number + 3])
            for place in re.split(MORE, match[1]):
                found.append(Reference(file, number + 1, place, around))
    return found


@pytest.mark.parametrize("pattern", [LETTERED, NUMBERED], ids=["appendices", "sections"])
def test_every_section_that_is_named_exists(pattern: re.Pattern[str]) -> None:
    found = references(pattern)
    assert found
    wrong = [str(one) for one in found if one.place not in TITLES]
    assert not wrong, "\n".join(wrong)


def test_every_equation_that_is_named_exists() -> None:
    found = references(EQUATION)
    assert len(found) > 10
    wrong = [str(one) for one in found if int(one.place) not in EQUATIONS]
    assert not wrong, "\n".join(wrong)


def test_an_appendix_is_named_for_what_it_treats() -> None:
    found = references(LETTERED)
    assert len(found) > 50
    astray = [one for one in found if not re.search(SUBJECTS.get(one.place, "$^"), one.around, re.IGNORECASE)]
    assert not astray, "\n".join(f"{one} ({TITLES.get(one.place, 'no such place')})" for one in astray)


def test_a_file_of_tests_named_after_an_appendix_is_of_that_appendix() -> None:
    named = [(file, lines) for file, lines in texts() if re.search(r"test_appendix_", file)]
    assert named
    for file, lines in named:
        letter, digit = re.search(r"test_appendix_([a-d])(\d)\.py$", file).groups()
        assert lines[0].startswith(f'"""Appendix {letter.upper()}.{digit} of the paper'), file


def test_references_have_one_spelling() -> None:
    """`appendix B.4`, `section 3.1`, `Eq. 9`: by number, lower case within a sentence, never by title or label."""
    other = [
        r"\beqs?\. ?\d|\bEqs? \d|[Ee]quations? \d",
        r"\beqs?\. [a-z]+-[a-z]",
        r"[Aa]ppendix \"|\btable [a-z]+-[a-z]+",
        r"(?<![.\"`#:*|] )(?<!\")(?<!^)\bAppendi(?:x|ces) [A-D]\b",
        r"(?<![.\"`#:*|] )(?<!\")(?<!^)\bSections? \d\.\d",
    ]
    spelled = re.compile("|".join(other))
    odd = [
        f"{file}:{n + 1}: {line.strip()}"
        for file, lines in texts()
        for n, line in enumerate(lines)
        if spelled.search(line)
    ]
    assert not odd, "\n".join(odd)
