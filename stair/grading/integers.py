"""Integer answers: equal decimal or fractional forms count, exactly; two values never do (appendix C.3)."""

from fractions import Fraction

from stair.grading.answers.hints import Hint
from stair.grading.answers.kinds import Answer, Based, Quantity, Relation
from stair.grading.answers.measures import same_measure
from stair.grading.answers.names import is_name
from stair.grading.answers.phrases import bare_text
from stair.grading.answers.reading import read_answer
from stair.grading.answers.regions import lone_symbol
from stair.grading.answers.units import PERCENT
from stair.grading.bounds import TooComplex
from stair.grading.equivalence import bare_reference
from stair.grading.expressions.clean import clean
from stair.grading.expressions.equality import equal, exact_value
from stair.grading.expressions.nodes import Negative, Node, Number, PlusMinus, contains, symbols


def same_integer(answer: str, reference: str, problem_hint: str | None = None) -> bool:
    """Whether the answer is the reference's integer.

    The answer may be any expression with exactly this value, with a unit, or after a name (`x = 42`). Lists, signs of
    both kinds and approximations are not one integer. Raises ValueError if the reference is no integer.
    """
    expected = _single(read_answer(bare_reference(reference)))
    value = None if expected is None else exact_value(expected.value)
    if expected is None or value is None or value.denominator != 1:
        raise ValueError(f"reference {reference!r} is not an integer")
    hint = Hint.of(problem_hint)
    try:
        given = _single(read_answer(answer))
        if given is not None and not _is_numeral(given.value) and hint.poses(bare_text(clean(answer))):
            return False  # a numeral is no formula to evaluate
        if given is None or (given.unit == PERCENT and not hint.wants_percent):
            return False
        if given.unit is not None and given.unit.noun.startswith("mod ") and hint and not hint.wants_remainder:
            return False
        return same_measure(given, expected, hint, equal)
    except TooComplex:
        return False


def _single(answer: Answer) -> Quantity | None:
    """The one value that an answer states."""
    if isinstance(answer, Relation):
        if not set(answer.operators) <= {"=", "equiv"}:
            return None
        sides, source = answer.sides, answer.source
        if len(sides) == 2 and lone_symbol(sides[1]) is not None:
            sides, source = sides[::-1], source[::-1]  # `24 = n`
        if is_name(source[0]):
            sides = sides[1:]
        values = [side for side in sides if isinstance(side, Quantity)]
        if len(values) != len(sides):
            return None
        if not all(value.unit == values[-1].unit and equal(value.value, values[-1].value) for value in values):
            return None
        answer = values[-1]
    if isinstance(answer, Based) and answer.base == 10:
        return Quantity(Number(Fraction(answer.digits)))
    if not isinstance(answer, Quantity) or answer.approximate or contains(answer.value, PlusMinus):
        return None
    return None if symbols(answer.value) else answer


def _is_numeral(node: Node) -> bool:
    return isinstance(node.operand if isinstance(node, Negative) else node, Number)
