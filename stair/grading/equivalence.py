"""Whether an answer says the same as the reference, in the format that the problem asked for."""

from string import ascii_uppercase

from stair.grading.answers.comparison import Comparison
from stair.grading.answers.grammar import parse_answer
from stair.grading.answers.requested_format import RequestedFormat, unified_spelling
from stair.grading.answers.types import AnswerList
from stair.grading.bounds import MAX_ANSWER_CHARACTERS, TooComplex
from stair.grading.choice_letters import choice_letter
from stair.grading.expressions.normalization import plain_text
from stair.grading.extraction import last_boxed
from stair.grading.listed_options import listed_options, names_option


def equivalent(answer: str, reference: str, problem_hint: str | None = None) -> bool:
    """Whether two mathematical answers are equal; never raises for an answer.

    Raises ValueError for an empty or overlong reference.
    """
    reference = bare_reference(reference)
    stated = plain_text(answer)
    if stated == plain_text(reference):
        return True
    requested = RequestedFormat.from_problem(problem_hint)
    if requested.repeats_formula(stated) and unified_spelling(stated) != unified_spelling(plain_text(reference)):
        return False
    letter = choice_letter(reference, ascii_uppercase) if requested else None
    if letter is not None and letter in reference:
        options = listed_options(problem_hint)
        if letter in options:
            return names_option(
                answer, letter, options, lambda one, other: same_text(one, other) or _same(one, other, requested)
            )
    return _same(answer, reference, requested)


def _same(answer: str, reference: str, requested: RequestedFormat) -> bool:
    comparison = Comparison(requested)
    try:
        return any(
            comparison.states(
                parse_answer(answer, grouping=answer_grouping), parse_answer(reference, grouping=reference_grouping)
            )
            for answer_grouping, reference_grouping in _readings(answer, requested)
        )
    except TooComplex:
        return False


def same_text(answer: str, reference: str) -> bool:
    """Whether both are one text in different spellings."""
    return plain_text(answer) == plain_text(reference)


def bare_reference(reference: str) -> str:
    """The reference without a box around it."""
    if len(reference) > MAX_ANSWER_CHARACTERS:
        raise ValueError(f"a reference of {len(reference)} characters; at most {MAX_ANSWER_CHARACTERS} can be compared")
    bare = (last_boxed(reference) or reference) if "boxed" in reference else reference
    if not bare.strip():
        raise ValueError("the reference is empty")
    return bare


def _readings(answer: str, requested: RequestedFormat) -> list[tuple[bool, bool]]:
    """How digits with commas between them are read, in the answer and in the reference: as one number or as several.

    The problem decides for the reference. An answer may group digits in either case; if it is plainly a list
    (`100, 200`), the reference is one too.
    """
    if requested.wants_list:
        return [(False, False), (True, False)]
    if isinstance(parse_answer(answer), AnswerList):
        return [(True, True), (False, False)]
    return [(True, True)]
