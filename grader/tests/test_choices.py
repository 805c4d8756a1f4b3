"""Multiple-choice answers beyond the labelled pairs."""

import pytest

from answer_grader import grade
from answer_grader.choices import choice_letter

OPTIONS = ("10 m/s", "42 m/s", "7 m/s", r"$\frac{1}{2}$ m/s")


@pytest.mark.parametrize("answer", ["B) 42 m/s", "B. 42 m/s", r"\text{(B) 42 m/s}", "B: 42 m/s."])
def test_the_letter_alone_counts_unless_the_option_is_accepted_beside_it(answer: str) -> None:
    assert not grade(rf"\boxed{{{answer}}}", "B", "choice", choices=OPTIONS).correct
    assert grade(rf"\boxed{{{answer}}}", "B", "choice", choices=OPTIONS, accept_choice_text=True).correct


@pytest.mark.parametrize("answer", ["B) 10 m/s", "A) 42 m/s", "B) 42", "42 m/s", "B) 42 m/s or C) 7 m/s"])
def test_a_letter_with_another_text_is_not_accepted(answer: str) -> None:
    assert not grade(rf"\boxed{{{answer}}}", "B", "choice", choices=OPTIONS, accept_choice_text=True).correct


def test_the_number_of_options_sets_the_letters() -> None:
    five = (*OPTIONS, "none")
    assert grade(r"\boxed{E}", "E", "choice", choices=five).correct
    assert choice_letter("E") is None
    assert choice_letter("C", "AB") is None
