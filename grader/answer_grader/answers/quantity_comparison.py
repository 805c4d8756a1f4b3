"""Whether two quantities are the same measure: values with units, percentages, angles, money, counted things."""

from collections.abc import Callable
from fractions import Fraction

from answer_grader.answers.requested_format import RequestedFormat
from answer_grader.answers.types import Quantity, Unit
from answer_grader.answers.units import DEGREE, PERCENT, RADIAN, UNITS, find_unit, is_percentage, multiply, power
from answer_grader.expressions.nodes import Constant, Node, Number, Power, Product, Quotient, Symbol, contains

SameValue = Callable[[Node, Node], bool]

_ANGLES = (DEGREE, RADIAN)


def same_quantity(answer: Quantity, reference: Quantity, requested: RequestedFormat, same: SameValue) -> bool:
    """Compares values in the unit that was asked for. `same` compares the bare values.

    A unit may be left out; a wrong one may not be given. The rules for percent and angles are those of
    rules.md, in the order of that page.
    """
    answer, reference = _with_bare_unit(answer, reference), _with_bare_unit(reference, answer)
    stated, expected = answer.unit, reference.unit
    if is_percentage(stated) or is_percentage(expected):
        return _same_percent(answer, reference, requested, same)
    if stated in _ANGLES or expected in _ANGLES:
        return _same_angle(answer, reference, requested, same)
    if stated is None and expected is None:
        return same(answer.value, reference.value)
    if stated is None or expected is None:
        return _same_with_one_unit(answer, reference, requested, same)
    if stated.dimensions != expected.dimensions or not _same_noun(stated.noun, expected.noun):
        return False
    requested_unit = requested.unit
    if (
        requested_unit is not None
        and requested_unit.dimensions == stated.dimensions
        and stated.factor not in (requested_unit.factor, expected.factor)
    ):
        return False
    return same(_times(answer.value, stated.factor / expected.factor), reference.value)


def _same_with_one_unit(answer: Quantity, reference: Quantity, requested: RequestedFormat, same: SameValue) -> bool:
    """One side has a unit. The other is in the unit that the problem asks for, or in the same one."""
    unit = answer.unit or reference.unit
    assert unit is not None
    if answer.unit is not None and requested.figure_unit is not None:
        exponents = [dict(each.dimensions) for each in (answer.unit, requested.figure_unit)]
        if set(exponents[0]) == {"m"} and exponents[0] != exponents[1]:
            return False  # a length where an area is asked for
    if answer.unit is not None and (_is_other_scale(answer.unit, requested) or _is_other_kind(answer.unit, requested)):
        return False
    requested_unit = requested.unit
    if (
        requested_unit is not None
        and requested_unit.dimensions == unit.dimensions
        and requested_unit.factor != unit.factor
    ):
        if answer.unit is not None:
            return False
        if same(_times(answer.value, requested_unit.factor / unit.factor), reference.value):
            return True
    return same(answer.value, reference.value)


def _is_other_scale(unit: Unit, requested: RequestedFormat) -> bool:
    """Whether it is a temperature, and another scale is asked for."""
    scale = requested.temperature_scale
    return scale is not None and unit != scale and unit in (UNITS["celsius"], UNITS["fahrenheit"])


def _is_other_kind(unit: Unit, requested: RequestedFormat) -> bool:
    """Whether it is a time where the problem asks how many miles, and the like. Compound units are left alone."""
    counted = requested.counted_unit
    if counted is None or len(counted.dimensions) != 1 or len(unit.dimensions) != 1:
        return False
    return counted.dimensions[0][0] != unit.dimensions[0][0]


def _same_noun(answer: str, reference: str) -> bool:
    """One side may say more than the other (`red apple`, `apple`)."""
    answer_words, reference_words = set(answer.split()), set(reference.split())
    return answer_words <= reference_words or reference_words <= answer_words


def _same_percent(answer: Quantity, reference: Quantity, requested: RequestedFormat, same: SameValue) -> bool:
    stated, expected = answer.unit, reference.unit
    if stated is not None and expected is not None:
        same_kind = is_percentage(stated) and is_percentage(expected)
        return same_kind and same(_times(answer.value, stated.factor / expected.factor), reference.value)
    if expected is not None:
        factor = expected.factor if requested.wants_plain_number else 1
        return same(answer.value, _times(reference.value, Fraction(factor)))
    assert stated is not None
    if requested.wants_percent:
        return same(_times(answer.value, stated.factor / PERCENT.factor), reference.value)
    as_number = same(_times(answer.value, stated.factor), reference.value)
    return as_number or (not requested and same(answer.value, reference.value))


def _same_angle(answer: Quantity, reference: Quantity, requested: RequestedFormat, same: SameValue) -> bool:
    stated, expected = answer.unit, reference.unit
    if stated not in (None, *_ANGLES) or expected not in (None, *_ANGLES):
        return False
    if stated == expected:
        return same(answer.value, reference.value)
    requested_unit = DEGREE if requested.wants_degrees else RADIAN if requested.wants_radians else None
    if requested_unit is not None:
        return (stated or requested_unit) == requested_unit and same(
            answer.value, _converted(reference.value, expected or requested_unit, requested_unit)
        )
    if stated is not None and expected is not None:
        return same(answer.value, _converted(reference.value, expected, stated))
    unit = stated or expected
    bare = answer.value if stated is None else reference.value
    if unit == DEGREE and contains(bare, Constant("pi")):
        degrees = [_converted(each.value, each.unit or RADIAN, DEGREE) for each in (answer, reference)]
        return same(degrees[0], degrees[1])
    return same(answer.value, reference.value)


def _converted(value: Node, unit: Unit, target: Unit) -> Node:
    if unit == target:
        return value
    half_turn = Number(Fraction(180))
    pi = Constant("pi")
    return Quotient(Product((value, pi)), half_turn) if target == RADIAN else Quotient(Product((value, half_turn)), pi)


def _times(value: Node, factor: Fraction) -> Node:
    return value if factor == 1 else Product((Number(factor), value))


def _bare_unit(node: Node) -> Unit | None:
    match node:
        case Symbol(name):
            return find_unit(name)
        case Power(Symbol(name), Number(exponent)) if exponent in (2, 3):
            unit = find_unit(name)
            return None if unit is None else power(unit, int(exponent))
        case Quotient(numerator, denominator):
            above, below = _bare_unit(numerator), _bare_unit(denominator)
            return None if above is None or below is None else multiply(above, power(below, -1))
        case _:
            return None


def _with_bare_unit(quantity: Quantity, other: Quantity) -> Quantity:
    """Reads `5m` as five metres where the other side is in metres."""
    if quantity.unit is not None or other.unit is None or not isinstance(quantity.value, Product):
        return quantity
    *factors, last = quantity.value.factors
    unit = _bare_unit(last)
    if unit is None or unit.dimensions != other.unit.dimensions or not factors:
        return quantity
    return Quantity(factors[0] if len(factors) == 1 else Product(tuple(factors)), unit)
