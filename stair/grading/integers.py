"""Integer answers: equal decimal or fractional forms count, exactly; two values never do (appendix C.3)."""

from fractions import Fraction

from stair.grading.answers.grammar import parse_answer
from stair.grading.answers.known_units import PERCENT
from stair.grading.answers.quantity_comparison import same_quantity
from stair.grading.answers.requested_format import RequestedFormat
from stair.grading.answers.types import Answer, BasedNumeral, Quantity, Relation, variable_name
from stair.grading.answers.value_names import names_value
from stair.grading.bounds import TooComplex
from stair.grading.equivalence import bare_reference
from stair.grading.expressions.equality import equal, exact_value
from stair.grading.expressions.nodes import Negative, Node, Number, PlusMinus, contains, symbols
from stair.grading.expressions.normalization import plain_text


def same_integer(answer: str, reference: str, problem_hint: str | None = None) -> bool:
    """Whether the answer is the reference's integer.

    The answer may be any expression with exactly this value, with a unit, or after a name (`x = 42`). Lists, signs of
    both kinds and approximations are not one integer. Raises ValueError if the reference is no integer.
    """
    expected = _single(parse_answer(bare_reference(reference)))
    value = None if expected is None else exact_value(expected.value)
    if expected is None or value is None or value.denominator != 1:
        raise ValueError(f"reference {reference!r} is not an integer")
    requested = RequestedFormat.from_problem(problem_hint)
    try:
        quantity = _single(parse_answer(answer))
        if quantity is not None and not _is_numeral(quantity.value) and requested.repeats_formula(plain_text(answer)):
            return False  # a numeral is no formula to evaluate
        if quantity is None or (quantity.unit == PERCENT and not requested.wants_percent):
            return False
        if (
            quantity.unit is not None
            and quantity.unit.noun.startswith("mod ")
            and requested
            and not requested.wants_remainder
        ):
            return False
        return same_quantity(quantity, expected, requested, equal)
    except TooComplex:
        return False


def _single(answer: Answer) -> Quantity | None:
    """The one value that an answer states."""
    if isinstance(answer, Relation):
        if not set(answer.operators) <= {"=", "equiv"}:
            return None
        sides, source = answer.sides, answer.source
        if len(sides) == 2 and variable_name(sides[1]) is not None:
            sides, source = sides[::-1], source[::-1]  # `24 = n`
        if names_value(source[0]):
            sides = sides[1:]
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
