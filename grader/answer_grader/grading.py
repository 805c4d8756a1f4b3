"""The verdict on one response."""

from __future__ import annotations

from collections.abc import Sequence

from answer_grader.bounds import MAX_ANSWER_CHARACTERS
from answer_grader.choices import choice_matches
from answer_grader.extraction import last_boxed
from answer_grader.verdict import KINDS, Item, Kind, Outcome, Verdict


def grade(
    response: str,
    reference: str,
    kind: Kind = "math",
    *,
    problem: str | None = None,
    choices: Sequence[str] | None = None,
    finish_reason: str | None = None,
    accept_choice_text: bool = False,
) -> Verdict:
    """Grades one response in this process. `grade_many` does the same in workers, with limits.

    Args:
        response: the whole response; its last box is the answer.
        reference: the reference answer, as the benchmark gives it; a box around it does not count.
        kind: `math` (equivalent in the requested format), `integer` (the same integer, exactly), `choice` (the letter).
        problem: the problem's text. It settles what an answer's form leaves open: percent, angle unit, base, list.
        choices: a choice question's options in the order shown.
        finish_reason: `context` (the model's context ran out) is incorrect whatever the response; `stop` and `length`
            are graded on what is available.
        accept_choice_text: accept an option's own text beside its letter.

    Raises ValueError where the reference or the kind cannot be used.
    """
    item = Item(response, reference, kind, problem, choices, finish_reason)
    settled = grade_without_comparison(item, accept_choice_text=accept_choice_text)
    if isinstance(settled, Verdict):
        return settled
    from answer_grader.matching import answer_matches  # not needed by those who compare in workers

    return verdict_of(settled, reference, *answer_matches(settled, reference, kind, problem))


def grade_without_comparison(item: Item, *, accept_choice_text: bool = False) -> Verdict | str:
    """The verdict where no mathematics is needed for it; otherwise the extracted answer, which is to be compared."""
    reference = item.reference
    if item.kind not in KINDS:
        raise ValueError(f"kind is {item.kind!r}; expected one of {', '.join(KINDS)}")
    if not isinstance(reference, str) or not reference.strip():
        raise ValueError(f"the reference is {'empty' if isinstance(reference, str) else 'missing'}")
    answer = last_boxed(item.response)
    if item.finish_reason == "context":
        return Verdict(answer, reference, Outcome.WRONG, "the model's context ran out")
    if answer is None:
        return Verdict(None, reference, Outcome.NO_ANSWER, "no complete last box")
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return verdict_of(answer, reference, False, f"a box of more than {MAX_ANSWER_CHARACTERS:,} characters")
    if item.kind == "choice":
        correct = choice_matches(answer, reference, choices=item.choices, accept_text=accept_choice_text)
        return verdict_of(answer, reference, correct, "the letter" if correct else "another letter, or none alone")
    return answer


def verdict_of(answer: str, reference: str, correct: bool, reason: str) -> Verdict:
    """The verdict on an answer that has been compared."""
    return Verdict(answer, reference, Outcome.CORRECT if correct else Outcome.WRONG, reason)
