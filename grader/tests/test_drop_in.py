"""`grade`'s verdicts, and `parse` and `verify` in the shape of math-verify."""

from fractions import Fraction

import pytest

from answer_grader import Outcome, grade, parse, verify
from answer_grader.answers.types import Quantity, Words


def test_a_verdict_has_the_parsed_answers_and_a_reason() -> None:
    verdict = grade(r"\boxed{\text{east}}", "5")
    assert (bool(verdict), verdict.outcome, str(verdict.outcome)) == (False, Outcome.WRONG, "wrong")
    assert isinstance(verdict.parsed_answer, Words)
    assert isinstance(verdict.parsed_reference, Quantity)
    assert verdict.reason == "not equal: words, or a formula that is not read for a value"
    assert grade("nothing", "5").parsed_answer is None


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("42", r"so \boxed{42}", True),
        ("$42$", "42", True),
        (r"\boxed{\frac12}", r"\boxed{0.5}", True),
        ("${1,3} \\cup {2,4}$", r"\boxed{5}", False),
        ("42", "I think it is 42 or 43", False),
        ("42", r"it was 42, \boxed{", False),
        ("5", "", False),
        ("5", r"\boxed{" + "5" * 5000 + "}", False),
    ],
)
def test_texts_and_parsed_texts_are_verified_alike(gold: str, answer: str, same: bool) -> None:
    assert verify(gold, answer) is verify(parse(gold), parse(answer)) is same


@pytest.mark.parametrize("gold", [None, "", " ", r"\boxed{}", [], [None], parse(""), float("nan"), "5" * 5000])
@pytest.mark.parametrize("answer", [r"\boxed{5}", "", None])
def test_a_missing_or_empty_reference_is_an_error(gold: object, answer: object) -> None:
    with pytest.raises(ValueError, match="the reference is missing, empty or of more than 4,000 characters"):
        verify(gold, answer)


@pytest.mark.parametrize("response", [r"\boxed{5}", "no box"])
@pytest.mark.parametrize("kind", ["math", "integer", "choice"])
def test_grade_refuses_a_missing_or_empty_reference(response: str, kind: str) -> None:
    for reference, problem in (("", "is empty"), (None, "is missing")):
        with pytest.raises(ValueError, match=f"the reference {problem}"):
            grade(response, reference, kind)  # type: ignore[arg-type]


def test_further_arguments_of_math_verify_are_ignored() -> None:
    gold = parse("0.5", extraction_config=[], parsing_timeout=5)
    assert verify(gold, parse(r"\boxed{1/2}", extraction_mode="any_match"), 6, strict=True, timeout_seconds=3)


def test_the_problem_settles_what_the_form_leaves_open() -> None:
    assert not verify("5", r"\boxed{500\%}", problem="What percent?")
    assert verify("5", r"\boxed{5\%}", problem="What percent?")


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        (parse("42"), [42], True),
        (1, "1", True),
        ("1", 1, True),
        (parse("0.5"), Fraction(1, 2), True),
        (parse("42")[0], (42.0,), True),
        (1, "2", False),
        ("1", [2], False),
        (r"\emptyset", None, False),
        ("5", [], False),
    ],
)
def test_numbers_and_lists_are_taken_as_their_text(gold: object, answer: object, same: bool) -> None:
    assert verify(gold, answer) is same
