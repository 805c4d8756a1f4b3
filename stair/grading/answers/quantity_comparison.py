"""Whether two quantities are the same measure: values with units, percentages, angles, money, counted things."""

from collections.abc import Callable
from fractions import Fraction

from stair.grading.answers.requested_format import RequestedFormat
from stair.grading.answers.types import Quantity, Unit
from stair.grading.answers.units import DEGREE, PERCENT, RADIAN, UNITS, find_unit, multiply, power
from stair.grading.expressions.nodes import Constant, Node, Number, Power, Product, Quotient, Symbol, contains

SameValue = Callable[[Node, Node], bool]

_ANGLES = (DEGREE, RADIAN)


def same_quantity(answer: Quantity, reference: Quantity, requested: RequestedFormat, same: SameValue) -> bool:
    """Compares values in the unit that was asked for. `same` compares the bare values.

    A unit may be left out; a wrong one may not be given. The rules for percent and angles are those of
    docs/grading.md, in the order in which they stand there.
    """
    answer, reference = _with_bare_unit(answer, reference), _with_bare_unit(reference, answer)
    given, wanted = answer.unit, reference.unit
    if PERCENT in (given, wanted):
        return _same_percent(answer, reference, requested, same)
    if given in _ANGLES or wanted in _ANGLES:
        return _same_angle(answer, reference, requested, same)
    if given is None and wanted is None:
        return same(answer.value, reference.value)
    if given is None or wanted is None:
        return _same_with_one_unit(answer, reference, requested, same)
    if given.dimensions != wanted.dimensions or not _same_noun(given.noun, wanted.noun):
        return False
    asked = requested.unit
    if asked is not None and asked.dimensions == given.dimensions and given.factor not in (asked.factor, wanted.factor):
        return False
    return same(_times(answer.value, given.factor / wanted.factor), reference.value)


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
    asked = requested.unit
    if asked is not None and asked.dimensions == unit.dimensions and asked.factor != unit.factor:
        if answer.unit is not None:
            return False
        if same(_times(answer.value, asked.factor / unit.factor), reference.value):
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


def _same_noun(given: str, wanted: str) -> bool:
    """One side may say more than the other (`red apple`, `apple`)."""
    one, other = set(given.split()), set(wanted.split())
    return one <= other or other <= one


def _same_percent(answer: Quantity, reference: Quantity, requested: RequestedFormat, same: SameValue) -> bool:
    given, wanted = answer.unit, reference.unit
    if given == wanted:
        return same(answer.value, reference.value)
    if given not in (None, PERCENT) or wanted not in (None, PERCENT):
        return False
    if wanted == PERCENT:
        if requested.wants_plain_number:
            return same(answer.value, _times(reference.value, Fraction(1, 100)))
        return same(answer.value, reference.value)
    in_percent = same(answer.value, reference.value)
    as_number = same(_times(answer.value, Fraction(1, 100)), reference.value)
    if requested.wants_percent:
        return in_percent
    return as_number if requested else in_percent or as_number


def _same_angle(answer: Quantity, reference: Quantity, requested: RequestedFormat, same: SameValue) -> bool:
    given, wanted = answer.unit, reference.unit
    if given not in (None, *_ANGLES) or wanted not in (None, *_ANGLES):
        return False
    if given == wanted:
        return same(answer.value, reference.value)
    asked = DEGREE if requested.wants_degrees else RADIAN if requested.wants_radians else None
    if asked is not None:
        return (given or asked) == asked and same(answer.value, _converted(reference.value, wanted or asked, asked))
    if given is not None and wanted is not None:
        return same(answer.value, _converted(reference.value, wanted, given))
    unit = given or wanted
    bare = answer.value if given is None else reference.value
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
