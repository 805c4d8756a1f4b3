"""Whether an extracted answer counts as correct, by kind, and by which rule."""

import re
from fractions import Fraction
from string import ascii_uppercase

from answer_grader.answers.canonical_form import names_value
from answer_grader.answers.comparison import Comparison
from answer_grader.answers.grammar import parse_answer
from answer_grader.answers.quantity_comparison import same_quantity
from answer_grader.answers.requested_format import RequestedFormat, unified_spelling
from answer_grader.answers.types import Answer, AnswerList, BasedNumeral, Quantity, Relation, description
from answer_grader.answers.units import is_percentage
from answer_grader.bounds import MAX_ANSWER_CHARACTERS, TooComplex
from answer_grader.choices import choice_letter, listed_options, names_option
from answer_grader.expressions.equality import equal, exact_value
from answer_grader.expressions.nodes import Negative, Node, Number, PlusMinus, contains, symbols
from answer_grader.expressions.normalization import plain_text
from answer_grader.extraction import last_boxed

_POINT_C = re.compile(r"C\s*\(\s*\d+\s*,\s*\d+\s*\)")
"""A reference that can be a point; in an answer it can also be a binomial."""

Match = tuple[bool, str]
"""Whether the answer counts as correct, and the rule that decided."""

REPEATED = False, "it repeats the problem's formula"
TOO_COMPLEX = False, "too large to compute"


def answer_matches(answer: str, reference: str, kind: str, problem: str | None) -> Match:
    """Compares an answer of kind `math` or `integer`; raises ValueError for a reference that cannot be used."""
    return (same_integer if kind == "integer" else equivalent)(answer, reference, problem)


def equivalent(answer: str, reference: str, problem: str | None = None) -> Match:
    """Compares two mathematical answers in the format that the problem asks for; never raises for an answer.

    Raises ValueError for an empty or overlong reference.
    """
    reference = bare_reference(reference)
    stated = plain_text(answer)
    if stated == plain_text(reference):
        return True, "the same text"
    if _POINT_C.fullmatch(reference.strip()):
        return False, "another text than the point"
    requested = RequestedFormat.from_problem(problem)
    if requested.repeats_formula(stated) and unified_spelling(stated) != unified_spelling(plain_text(reference)):
        return REPEATED
    letter = choice_letter(reference, ascii_uppercase) if requested else None
    if letter is not None and letter in reference:
        options = listed_options(problem)
        if letter in options:
            named = names_option(
                answer,
                letter,
                options,
                lambda one, other: plain_text(one) == plain_text(other) or _same(one, other, requested)[0],
            )
            return named, "it names the option" if named else "it names another option, or none"
    return _same(answer, reference, requested)


def _same(answer: str, reference: str, requested: RequestedFormat) -> Match:
    comparison = Comparison(requested)
    try:
        stated, expected = parse_answer(answer), parse_answer(reference)
        for answer_grouping, reference_grouping in _readings(stated, requested):
            one = parse_answer(answer, grouping=answer_grouping)
            other = parse_answer(reference, grouping=reference_grouping)
            if comparison.states(one, other):
                return True, f"equal: {description(one)}"
    except TooComplex:
        return TOO_COMPLEX
    return False, f"not equal: {description(stated)} for {description(expected)}"


def bare_reference(reference: str) -> str:
    """The reference without a box around it."""
    if len(reference) > MAX_ANSWER_CHARACTERS:
        raise ValueError(f"a reference of {len(reference)} characters; at most {MAX_ANSWER_CHARACTERS} can be compared")
    bare = (last_boxed(reference) or reference) if "boxed" in reference else reference
    if not bare.strip():
        raise ValueError("the reference is empty")
    return bare


def _readings(stated: Answer, requested: RequestedFormat) -> list[tuple[bool, bool]]:
    """How digits with commas between them are read, in the answer and in the reference: as one number or as several.

    The problem decides for the reference. An answer may group digits in either case; if it is plainly a list
    (`100, 200`), the reference is one too.
    """
    if requested.wants_list:
        return [(False, False), (True, False)]
    return [(True, True), (False, False)] if isinstance(stated, AnswerList) else [(True, True)]


def same_integer(answer: str, reference: str, problem: str | None = None) -> Match:
    """Whether the answer is the reference's integer.

    The answer may be any expression with exactly this value, with a unit, or after a name (`x = 42`). Lists, signs of
    both kinds and approximations are not one integer. Raises ValueError if the reference is no integer.
    """
    expected = _single(parse_answer(bare_reference(reference)))
    value = None if expected is None else exact_value(expected.value)
    if expected is None or value is None or value.denominator != 1:
        raise ValueError(f"reference {reference!r} is not an integer")
    requested = RequestedFormat.from_problem(problem)
    stated = parse_answer(answer)
    try:
        quantity = _single(stated)
        if quantity is None:
            return False, f"no single integer: {description(stated)}"
        if not _is_numeral(quantity.value) and requested.repeats_formula(plain_text(answer)):
            return REPEATED  # a numeral is no formula to evaluate
        if is_percentage(quantity.unit) and not requested.wants_percent:
            return False, "a percentage, which the problem does not ask for"
        of_remainders = quantity.unit is not None and quantity.unit.noun.startswith("mod ")
        if of_remainders and requested and not requested.wants_remainder:
            return False, "a remainder, which the problem does not ask for"
        correct = same_quantity(quantity, expected, requested, equal)
        return correct, "the same integer" if correct else "not this integer, or not in the requested unit"
    except TooComplex:
        return TOO_COMPLEX


def _single(answer: Answer) -> Quantity | None:
    """The one value that an answer states."""
    if isinstance(answer, Relation):
        if not set(answer.operators) <= {"=", "equiv"}:
            return None
        sides = answer.sides[names_value(answer.source[0]) :]
        values = [side for side in sides if isinstance(side, Quantity)]
        if len(values) != len(sides):
            return None
        if not all(value.unit == values[-1].unit and equal(value.value, values[-1].value) for value in values):
            return None
        answer = values[-1]
    if isinstance(answer, BasedNumeral) and answer.base == 10:
        return Quantity(Number(Fraction(answer.digits)))
    if not isinstance(answer, Quantity) or answer.approximate or contains(answer.value, PlusMinus):
        return None
    return None if symbols(answer.value) else answer


def _is_numeral(node: Node) -> bool:
    return isinstance(node.operand if isinstance(node, Negative) else node, Number)
