"""Whether two equations, or two inequalities in several variables, have the same solutions."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, islice, pairwise

from answer_grader.answers.types import Quantity, Relation
from answer_grader.bounds import TooComplex
from answer_grader.expressions.arithmetic import Arithmetic, Undefined, Value
from answer_grader.expressions.equality import further_points, near_value, points, real_values, same_value
from answer_grader.expressions.evaluator import Evaluator
from answer_grader.expressions.nodes import Negative, Node, Number, Sum, Symbol, replaced, symbols

_SUFFICIENT_AGREEMENTS = 5
_PLACES = tuple(Fraction(place, 3) for place in (-7, -1, 1, 4, 4_000))
_FLIPPED = {"<": ">", ">": "<", "le": "ge", "ge": "le", "=": "=", "ne": "ne"}


def same_solutions(left: Relation, right: Relation) -> bool:
    """Compares `f = g` with `p = q`: where f - g is a constant multiple of p - q, or both have the same root in a
    variable in which both are linear. An inequality keeps or turns its sign with the sign of the multiple.
    """
    if len(left.operators) != 1 or len(right.operators) != 1:
        return False
    one, other = _difference(left), _difference(right)
    if one is None or other is None or symbols(one) != symbols(other) or not symbols(one):
        return False
    names = sorted(symbols(one))
    arithmetic = Arithmetic()
    try:
        multiple = _constant_multiple(one, other, names, arithmetic)
        if multiple is not None:
            operator = right.operators[0]
            flipped = _FLIPPED.get(operator) if not arithmetic.is_complex(multiple) and multiple < 0 else operator
            return left.operators[0] == flipped
        if left.operators == right.operators == ("=",):
            return any(_same_root(one, other, name, names, arithmetic) for name in names)
    except TooComplex:
        return False
    return False


def reversed_relation(relation: Relation) -> Relation:
    """`c > b > a` for `a < b < c`."""
    operators = tuple(_FLIPPED.get(operator, operator) for operator in reversed(relation.operators))
    return Relation(relation.sides[::-1], operators, relation.source[::-1])


def _difference(relation: Relation) -> Node | None:
    left, right = relation.sides
    if not isinstance(left, Quantity) or not isinstance(right, Quantity) or left.unit or right.unit:
        return None
    return Sum((left.value, Negative(right.value)))


def _constant_multiple(one: Node, other: Node, names: Sequence[str], arithmetic: Arithmetic) -> Value | None:
    """The constant c with one = c * other, or None."""
    multiple: Value | None = None
    agreements = 0
    for point in points(names):
        values = _values(one, other, point, arithmetic)
        if values is None:
            continue
        if (values[0] == 0) != (values[1] == 0):
            return None
        if values[1] == 0:
            continue
        ratio = arithmetic.divide(*values)
        if multiple is not None and not same_value(ratio, multiple, arithmetic):
            return None
        multiple = ratio
        agreements += 1
        if agreements == _SUFFICIENT_AGREEMENTS:
            break
    if multiple is None or agreements < _SUFFICIENT_AGREEMENTS:
        return None
    further = real_values(one, other, further_points(one, other, arithmetic), arithmetic)
    proportional = all(near_value(left, arithmetic.multiply(multiple, right), arithmetic) for left, right in further)
    return multiple if proportional else None


def _same_root(one: Node, other: Node, name: str, names: Sequence[str], arithmetic: Arithmetic) -> bool:
    first = islice(points(names), _SUFFICIENT_AGREEMENTS)
    left, right = (replaced(node, Symbol(name), Number(Fraction(0))) for node in (one, other))
    for index, point in enumerate(chain(first, further_points(left, right, arithmetic))):
        roots = [_linear_root(node, name, point, arithmetic) for node in (one, other)]
        if roots[0] is None or roots[1] is None:
            if index < _SUFFICIENT_AGREEMENTS:
                return False
        elif not near_value(roots[0], roots[1], arithmetic):
            return False
    return True


def _linear_root(node: Node, name: str, point: dict[str, Fraction], arithmetic: Arithmetic) -> Value | None:
    """The root in one variable, if the expression is linear in it at this point."""
    try:
        values = [Evaluator({**point, name: place}, arithmetic=arithmetic).value(node) for place in _PLACES]
    except (TooComplex, Undefined):
        return None
    rises = [arithmetic.add(high, -low) for low, high in pairwise(values)]
    slopes = [arithmetic.divide(rise, high - low) for rise, (low, high) in zip(rises, pairwise(_PLACES), strict=True)]
    if slopes[0] == 0 or not all(same_value(slope, slopes[0], arithmetic) for slope in slopes[1:]):
        return None
    return arithmetic.add(_PLACES[0], -arithmetic.divide(values[0], slopes[0]))


def _values(one: Node, other: Node, point: dict[str, Fraction], arithmetic: Arithmetic) -> tuple[Value, Value] | None:
    evaluator = Evaluator(point, arithmetic=arithmetic)
    try:
        return evaluator.value(one), evaluator.value(other)
    except Undefined:
        return None
