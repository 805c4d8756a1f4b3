"""Counts of the responses that the rules on the answer's form decide."""

import pytest

from answer_grader import Item, grade_many
from answer_grader.answer_forms import AnswerForms, answer_forms
from answer_grader.extraction import ends_in_several_boxes, last_boxed

OPTIONS = ("10 m/s", "42 m/s", "7 m/s", "0 m/s")


@pytest.mark.parametrize(
    "response",
    [
        r"The roots are \boxed{1}, \boxed{2}.",
        r"The roots are $\boxed{1}$ and $\boxed{2}$.",
        r"\[\boxed{1} \quad \text{or} \quad \boxed{2}\]",
        "**Answer**\n\n\\(\\boxed{1}\\)\n\n\\(\\boxed{2}\\)\n",
        r"$x = \boxed{1}$, $y_1 = \boxed{2}$",
        r"\boxed 1, \boxed 2",
        r"\boxed{0}\boxed{1}\boxed{2}",
        r"\[\boxed{1} \\ \boxed{2}\]",
    ],
)
def test_several_boxes_at_the_end_are_seen_and_the_last_one_counts(response: str) -> None:
    assert ends_in_several_boxes(response)
    assert last_boxed(response) == "2"


@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{2}",
        r"First \boxed{1}, but the sign was wrong, so \boxed{2}",
        r"Part (a): \boxed{1}. Part (b): \boxed{2}",
        r"\boxed{2} \boxed{2}",
        r"\boxed{\boxed{2}}",
        r"\boxed{x = \fbox{2}}",
        r"\boxed{1}, \boxed{2",
        r"\boxed{1}, \boxed{}",
        r"\boxed{1 \boxed{2}",
        "no box",
        "",
    ],
)
def test_one_answer_at_the_end_is_not_several(response: str) -> None:
    assert not ends_in_several_boxes(response)


def test_megabytes_between_boxes_take_no_longer_than_their_length() -> None:
    assert not ends_in_several_boxes(r"\boxed{1}" + "$ " * 1_000_000 + r"\boxed{2}")


def test_what_the_option_s_text_would_add_is_counted_beside_the_scores() -> None:
    def asked(response: str, **more: object) -> Item:
        return Item(response, "B", "choice", choices=OPTIONS, **more)  # type: ignore[arg-type]

    items = [
        asked(r"\boxed{B}"),
        asked(r"\boxed{B) 42 m/s}"),
        asked(r"\boxed{B. 42 m/s}", finish_reason="context"),
        asked(r"\boxed{B) 10 m/s}"),
        asked(r"\boxed{A}, \boxed{B}"),
        Item(r"\boxed{1} \text{ and } \boxed{2}", "2", "math"),
    ]
    scores = grade_many(items, workers=0)
    assert [score.correct for score in scores] == [True, False, False, False, True, True]
    assert answer_forms(items, scores) == AnswerForms(several_boxes=2, choice_text=1)
    assert answer_forms(items[-1:], scores[-1:]) == AnswerForms(several_boxes=1, choice_text=None)
    assert answer_forms([], []) == AnswerForms(several_boxes=0, choice_text=None)
