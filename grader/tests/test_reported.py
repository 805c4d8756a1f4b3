"""Spellings that other graders' users reported, each with its near misses."""

import pytest

from answer_grader import grade

ACCEPTED = {
    "words beside a value": {
        "integer 7": [r"7\text{ exactly}", r"7\text{ apples}"],
        "math 7": [r"\approx 7", r"\text{about }7", r"x \approx 7", r"7\text{ problems}"],
    },
    "sizes and faces": {
        "integer 7": [r"\huge{7}", r"\LARGE 7", r"{\tiny 7}", r"\bfseries 7"],
        r"math \frac12": [r"\Huge{\frac12}", r"\small 0.5"],
        "choice B": [r"\small B", r"\textsc{B}", r"{\Large B}"],
    },
    "colour boxes": {
        "integer 7": [r"\colorbox{yellow}{7}", r"\fcolorbox{red}{white}{7}"],
        "math 0.5": [r"\colorbox{yellow}{$\frac12$}"],
        "choice B": [r"\colorbox{yellow}{B}", r"\fcolorbox{A}{C}{B}"],
    },
    "emphasis": {"integer 42": ["**42**", "*42*", "__42__", "`42`", "**42。**"], "math 0.5": [r"**\frac{1}{2}**"]},
    "endings": {
        "choice C": ["C,", "C;", "C。", "C，", "C、"],
        "integer 42": ["42。", "42,"],
        "math 1, 2": ["1、2"],
        "integer 5": [r"5\text{个}", "5个", "5元"],
        r"math 5\text{ yuan}": ["5元"],
    },
    "a named letter": {
        "choice C": [
            r"\text{Option C}",
            r"\text{Answer: C}",
            r"\text{Option }C",
            "Option (C).",
            r"\text{The answer is C}",
        ],
        "choice B": [r"\text{choice B}", r"\textbf{The correct option is (b)}"],
    },
    "signs around": {
        "integer 42": [r"42\checkmark", "42✓"],
        "integer 7": [r"\to 7", r"\therefore 7", "⇒ 7"],
        "math 7": [r"\therefore x = 7", r"\implies 7"],
    },
    "binomials": {
        "integer 120": ["C(10,3)", "C_{10}^{3}", "C_{10}^3", "C^{3}_{10}"],
        "math 45": [r"C_{10}^{2}\text{ ways}"],
    },
    "square metres": {
        "math 1000.99": ["1000.99 m²", "1,000.99m²"],
        r"math 1000.99\text{ m}^2": ["1000.99 m²", "1,000.99m²"],
    },
    "an aside": {
        "integer 42": [r"42\ (=6\cdot 7)"],
        "math 42": [r"42 (= 6 \times 7)"],
        "math 1/2": [r"0.5\ (=\frac12)"],
    },
    "digits after a fraction": {r"math \frac{9}{19}": [r"\frac919"], "math 0.5": [r"\frac12"]},
    "brackets": {"integer 42": ["(42)", "{42}"], "choice C": ["[C]"], "math 14": ["2[3+4]"], "math [1, 2]": ["[1,2]"]},
}
REFUSED = {
    "sizes and faces": {"integer 7": [r"\huge{8}", r"\hugely 7"], "choice B": [r"\small C", r"\smallest B"]},
    "colour boxes": {"integer 7": [r"\colorbox{7}{8}"], "choice C": [r"\fcolorbox{A}{C}{B}"]},
    "emphasis": {"integer 42": ["2**42", "**42", "**4**2", "**24**"], "math 16": ["**4**2"]},
    "endings": {
        "choice C": ["C,D", "C, D", "C;D", "D,"],
        "math 12": ["1、2"],
        "math 1234": ["1、234、5"],
        "integer 5": [r"5\text{不}", r"5\text{万}", r"5\text{十}", "5对"],
        r"math 5\text{ dollars}": ["5元"],
    },
    "a named letter": {
        "choice C": [
            *(r"\text{Option C or D}", r"\text{not option C}", r"\text{Options C and D}", r"\text{C is wrong}"),
            *(r"\text{Vitamin C}", r"\text{Option C}_2", r"\text{Except option C}", "OptionC", r"\text{Answer: D}"),
        ],
        "choice A": [r"\text{A choice}", r"\text{Answer: A, B}", r"\text{Answer: A B}", r"\text{Answer: none}"],
    },
    "signs around": {
        "math 7": [r"x \to 7", r"5 \to 7", r"7 \to 8"],
        "integer 7": [r"5 \to 7", r"\boxtimes 7", r"\not\to 7", r"7\times"],
    },
    "binomials": {
        "math 720": ["C(10,3)"],
        "math 0": ["C(3,10)", "C_3^{10}"],
        "math 120": ["B(10,3)", "(10,3)"],
        "math C(4,1)": ["C(4,3)", "4"],
        "math C_1^2 + 1": ["C_1^2 + C_2^2"],
    },
    "square metres": {r"math 1000.99\text{ m}": ["1000.99 m²"], r"math 1000.99\text{ cm}^2": ["1,000.99m²"]},
    "an aside": {"math 42": [r"42\ (=6\cdot 8)"], "integer 42": [r"42\ (=6\cdot 8)"], "math 48": [r"42\ (=6\cdot 8)"]},
    "digits after a fraction": {"math 81": [r"\frac919"], r"math \frac{91}{9}": [r"\frac919"]},
    "number words behind a number": {
        "integer 7": [r"7\text{ halves}", r"7\text{ approximately}", r"7\text{ out of ten}", r"7\text{ probably}"],
        "math 7": [
            *(r"\text{seven twentieths}", r"\text{seven point five}", r"7\text{ (guess)}"),
            *(r"7\text{ approximately}", r"7\text{ probably}", r"7\text{ perhaps}", r"\approx 7.01"),
        ],
        "integer 5": [r"5\text{ crore}", r"5\text{ root two}", r"5\text{ pi}"],
    },
    "a remainder that is not taken": {"math 7": [r"7 \bmod 4"], "math 1024": [r"2^{10} \bmod 1000"]},
    "doubt": {"integer 7": ["7?", "7 ?", "?"], "math 7": ["7?", "x=7?"], "choice C": ["C?"]},
    "brackets": {
        "integer 42": ["[42]", r"\left[42\right]"],
        "math 42": ["[42]", "x=[42]"],
        "math 3": ["[3.7]", "[1+2]"],
    },
}


def cases(table: dict[str, dict[str, list[str]]]) -> list[tuple[str, str, str]]:
    """Answer, kind and reference of every case."""
    return [
        (answer, *asked.split(" ", 1))  # type: ignore[misc]
        for kinds in table.values()
        for asked, answers in kinds.items()
        for answer in answers
    ]


@pytest.mark.parametrize(("answer", "kind", "reference"), cases(ACCEPTED))
def test_accepted(answer: str, kind: str, reference: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", reference, kind).correct  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "kind", "reference"), cases(REFUSED))
def test_refused(answer: str, kind: str, reference: str) -> None:
    assert not grade(rf"\boxed{{{answer}}}", reference, kind).correct  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["math", "integer"])
def test_ish_and_struck_out_values_are_no_answers(kind: str) -> None:
    for answer in (r"7\text{ish}", "7ish", r"7\text{-ish}", "~~7~~", "x = ~~7~~", "**~~7~~**"):
        assert not grade(rf"\boxed{{{answer}}}", "7", kind), answer
    for answer in (r"7\text{ fish}", "7~", "~7~", r"7~~\text{apples}", "$~~7~~$"):
        assert grade(rf"\boxed{{{answer}}}", "7", kind), answer


def test_a_struck_out_letter_is_none() -> None:
    problem = "Which? (A) $1$ (B) $2$ (C) $3$ (D) $4$"
    for answer in ("~~C~~", "~~Option C~~", r"\text{~~C~~}"):
        assert not grade(rf"\boxed{{{answer}}}", "C", "choice"), answer
        assert not grade(rf"\boxed{{{answer}}}", "C", problem=problem), answer
    for answer in ("~C~", r"\text{Option~C}"):
        assert grade(rf"\boxed{{{answer}}}", "C", "choice"), answer
