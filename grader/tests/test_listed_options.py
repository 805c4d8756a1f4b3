"""Options that a problem lists, and answers that name one of them."""

import pytest

from answer_grader import grade
from answer_grader.choices import listed_options

CURVE = "Identify the curve.\n\n(A) Line\n(B) Circle\n(C) Parabola\n\nEnter the letter of the correct option."


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (CURVE, {"A": "Line", "B": "Circle", "C": "Parabola"}),
        (r"Which? (A) $2\sqrt{3}$ (B) $.5$ (C) $6$. Give the letter.", {"A": r"2\sqrt{3}", "B": ".5", "C": "6"}),
        (
            r"$\textbf{(A) }1\qquad\textbf{(B)}\ \frac12 \qquad \mathrm{(C)\ } \$3$",
            {"A": "1", "B": r"\frac12", "C": r"\$3"},
        ),
        ("Which?\nA. 10 cm\nB. 12 cm\nC. 15 cm", {"A": "10 cm", "B": "12 cm", "C": "15 cm"}),
        ("Which?\nA) ten\nB) twelve\nC) fifteen\nD) none", {"A": "ten", "B": "twelve", "C": "fifteen", "D": "none"}),
        ("Statements (A), (B) and (C) hold. (A) odd\n(B) even\n(C) neither", {"A": "odd", "B": "even", "C": "neither"}),
        (r"\textbf{(A) Line} \textbf{(B) Circle} \textbf{(C) Point}", {"A": "Line", "B": "Circle", "C": "Point"}),
        ("The circles (A) and (B) are tangent at $C$.", {}),
        ("Points $A$, $B$ and $C$ lie on a line.", {}),
        ("(B) two (C) three (D) four", {}),
        ("", {}),
    ],
)
def test_listed_options(problem: str, options: dict[str, str]) -> None:
    assert listed_options(problem) == options


@pytest.mark.parametrize("answer", ["C", "c", r"\text{(c)}", "parabola", r"\text{C: Parabola}", r"\text{Parabola (C)}"])
def test_an_option_is_named_by_its_letter_its_text_or_both(answer: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", r"\text{(C)}", "math", problem=CURVE).correct


@pytest.mark.parametrize(
    "answer", ["B", "circle", r"\text{B: Parabola}", r"\text{Parabola (B)}", r"\text{C: Circle}", r"\text{C or B}"]
)
def test_a_letter_and_a_text_that_differ_name_no_option(answer: str) -> None:
    assert not grade(rf"\boxed{{{answer}}}", r"\text{(C)}", "math", problem=CURVE).correct


def test_a_small_letter_is_a_reference_of_its_own() -> None:
    assert not grade(r"\boxed{C}", "c", "math", problem=CURVE).correct


def test_a_choice_question_wants_the_letter() -> None:
    assert not grade(r"\boxed{\text{Parabola}}", "C", "choice", problem=CURVE).correct
