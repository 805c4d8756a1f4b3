"""The verdict on one response (appendix C.3)."""

from collections.abc import Sequence
from typing import Literal, get_args

from stair.grading.bounds import MAX_ANSWER_CHARACTERS
from stair.grading.choice_letters import choice_matches
from stair.grading.extraction import last_boxed
from stair.grading.verdict import Score, Verdict

Kind = Literal["math", "integer", "choice"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def score(
    response: str,
    reference: str,
    kind: Kind,
    *,
    problem_hint: str | None = None,
    choices: Sequence[str] | None = None,
    finish_reason: str | None = None,
    accept_choice_text: bool = False,
) -> Score:
    """Scores one response in this process. `score_many` does the same in workers, with limits.

    Args:
        response: the whole decoded response; its last box is the answer.
        reference: the reference answer, as the benchmark gives it, without a box.
        kind: `math` (equivalent in the requested format), `integer` (the same integer, exactly), `choice` (the letter).
        problem_hint: the problem's text. It settles what an answer's form leaves open: percent, angle unit, base, list.
        choices: a choice question's options in the order shown.
        finish_reason: `context` (the model's context ran out) is incorrect whatever stands there; `stop` and `length`
            are scored on what is available.
        accept_choice_text: accept an option's own text beside its letter. The paper's rule is the letter only.

    Raises ValueError where the reference or the kind cannot be used.
    """
    settled = score_without_comparison(
        response,
        reference,
        kind,
        choices=choices,
        finish_reason=finish_reason,
        accept_choice_text=accept_choice_text,
    )
    if isinstance(settled, Score):
        return settled
    from stair.grading.matching import answer_matches  # not needed by those who compare in workers

    return verdict_of(settled, answer_matches(settled, reference, kind, problem_hint))


def score_without_comparison(
    response: str,
    reference: str,
    kind: Kind,
    *,
    choices: Sequence[str] | None = None,
    finish_reason: str | None = None,
    accept_choice_text: bool = False,
) -> Score | str:
    """The score where no mathematics is needed for it; otherwise the extracted answer, which is to be compared."""
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    answer = last_boxed(response)
    if finish_reason == "context":
        return Score(answer, Verdict.WRONG)
    if answer is None:
        return Score(None, Verdict.NO_ANSWER)
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return Score(answer, Verdict.WRONG)
    if kind == "choice":
        return verdict_of(answer, choice_matches(answer, reference, choices=choices, accept_text=accept_choice_text))
    return answer


def verdict_of(answer: str, correct: bool) -> Score:
    """The score of an answer that has been compared."""
    return Score(answer, Verdict.CORRECT if correct else Verdict.WRONG)
