"""The last box of a response."""

import pytest

from answer_grader import Outcome, grade
from answer_grader.extraction import last_boxed


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (r"\boxed{5}", "5"),
        (r"\boxed{4}, so \boxed{5}", "5"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\text{a } \} b}", r"\text{a } \} b"),
        (r"\boxed {5}", "5"),
        ("\\boxed\n{5}", "5"),
        (r"\boxed 5", "5"),
        (r"so $\boxed 5$.", "5"),
        (r"so \boxed 5.", "5"),
        (r"\boxed\frac{1}{2}$", r"\frac{1}{2}"),
        (r"\fbox{5}", "5"),
        (r"\fbox{4}, so \fbox{5}", "5"),
        (r"\boxed{1} \fbox{2}", "1"),
        (r"\fbox{1} \boxed{2", None),
        (r"\boxed{x = \fbox{2}}", r"x = \fbox{2}"),
        (r"\boxed{\text{the value } \boxed{3}}", "3"),
        (r"\boxed{ 5 }", "5"),
        ("no box, and 5", None),
        (r"\boxed{}", None),
        (r"\boxed{ }", None),
        (r"\boxed{5", None),
        (r"\boxed{5} then \boxed{6", None),
        (r"\boxed", None),
        (r"\boxed ", None),
        (r"\boxedanswer{5}", None),
        (r"\boxed{5} \boxedanswer{6}", "5"),
        ("", None),
    ],
)
def test_last_boxed(response: str, expected: str | None) -> None:
    assert last_boxed(response) == expected


def test_a_cut_off_last_box_is_no_answer() -> None:
    result = grade(r"\boxed{5} or rather \boxed{5", "5", "integer")
    assert (result.outcome, result.answer) == (Outcome.NO_ANSWER, None)


@pytest.mark.parametrize(
    ("finish_reason", "verdict"), [("stop", "correct"), ("length", "correct"), ("context", "wrong")]
)
def test_an_exhausted_context_is_incorrect_whatever_stands_there(finish_reason: str, verdict: str) -> None:
    result = grade(r"\boxed{5}", "5", "integer", finish_reason=finish_reason)
    assert (result.outcome, result.answer) == (verdict, "5")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind is 'number'"):
        grade(r"\boxed{5}", "5", "number")  # type: ignore[arg-type]


@pytest.mark.parametrize(("reference", "kind"), [("7.5", "integer"), ("x", "integer"), ("E", "choice"), (" ", "math")])
def test_a_reference_that_cannot_be_used_is_refused(reference: str, kind: str) -> None:
    with pytest.raises(ValueError, match="reference"):
        grade(r"\boxed{5}", reference, kind)  # type: ignore[arg-type]
