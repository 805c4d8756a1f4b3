"""Whether two expressions are equal.

Constants are compared by their values, exactly where they are rational and in 130 digits otherwise (mpmath). Expressions with
variables are compared at rational points, in the same way: two different ones of the size of an answer do not agree at several
such points. Functions with kinks or jumps (`|x - 5|`) do, so further points lie at all scales and beside the kinks. Unlike
simplification, this always ends.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from typing import TypeVar

from answer_grader.bounds import TooComplex
from answer_grader.expressions.arithmetic import Arithmetic, Undefined, Value
from answer_grader.expressions.evaluator import Evaluator
from answer_grader.expressions.nodes import (
    Call,
    Constant,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Series,
    Sum,
    Symbol,
    children,
    contains,
    replaced,
    symbols,
)

_POINTS = 16
_FIRST_POINTS = 7
"""The first eight have all signs."""
_SUFFICIENT_AGREEMENTS = 4
_MOST_OPERANDS = 30
_MOST_COMPARISONS = 1_000

_WITH_KINKS = frozenset({"abs", "max", "min", "floor", "ceil", "sgn"})
_SCALES = tuple(Fraction(137, 100) * Fraction(10) ** exponent for exponent in range(-3, 7))
_BESIDE = Fraction(1, 1_000)
_NEAR = Fraction(1, 10**30)
"""At large values, the rounding of terms that cancel reaches further; beside a kink, functions differ by much more."""
_MOST_KINKS = 12
_LARGEST_KINK = 10**12


def equal(left: Node, right: Node, *, degree_is_one: bool = False) -> bool:
    """Whether both have the same value, for all values of the variables at which both are defined.

    Expressions that cannot be computed (too large, undefined) are equal only if they are built alike.
    """
    return _Comparison(degree_is_one).equal(left, right)


def exact_value(node: Node) -> Fraction | None:
    """The rational value of an expression without variables, or None. A root or a sine may have one too."""
    try:
        value = Evaluator().value(node)
    except (TooComplex, Undefined):
        return None
    return value if isinstance(value, Fraction) else None


def same_value(left: Value, right: Value, arithmetic: Arithmetic) -> bool:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left == right
    if arithmetic.is_infinite(left) or arithmetic.is_infinite(right):
        return bool(left == right)
    return bool(arithmetic.add(left, -right) == 0)


def near_value(left: Value, right: Value, arithmetic: Arithmetic) -> bool:
    """Whether two values at a further point are the same up to the rounding that large terms leave."""
    if same_value(left, right, arithmetic):
        return True
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return False
    left, right = arithmetic.inexact(left), arithmetic.inexact(right)
    return bool(abs(left - right) <= arithmetic.inexact(_NEAR) * max(abs(left), abs(right)))


def points(names: Iterable[str], integers: frozenset[str] = frozenset()) -> Iterable[dict[str, Fraction]]:
    """Rational points that depend on the names only: positive, of mixed signs, small, negative.

    Names among `integers`, and the indices of series, stand for small positive integers, different at each point.
    """
    for index in range(_POINTS):
        point: dict[str, Fraction] = {}
        for name in names:
            if name in integers or name.startswith("#"):
                point[name] = Fraction(1 + (index * (1 + 2 * (len(point) % 4)) + len(point)) % _POINTS)
                continue
            digest = hashlib.sha256(f"{name}/{index}".encode()).digest()
            value = Fraction(1 + digest[0] % 97, 29 + digest[1] % 31)
            if index % 4 == 2:
                value = value / 5
            negative = index % 4 == 3 or (index % 4 == 1 and digest[2] % 2)
            point[name] = -value if negative else value
        yield point


def further_points(
    left: Node, right: Node, arithmetic: Arithmetic, integers: frozenset[str] = frozenset()
) -> Iterable[dict[str, Fraction]]:
    """Points at which functions with kinks or jumps differ that agree at small points; none for other functions.

    Each variable takes values of all scales, the values at which a kink may lie, and those beside and between them.
    """
    if not (_has_kinks(left) or _has_kinks(right)):
        return
    kinks = _possible_kinks(left, right, arithmetic)
    kinks = sorted({*kinks, *(-kink for kink in kinks)})
    values = [*_SCALES, *(-scale for scale in _SCALES), *((low + high) / 2 for low, high in pairwise(kinks))]
    for kink in kinks:
        values += [kink, kink - _BESIDE, kink + _BESIDE]
    names = sorted(symbols(left) | symbols(right))
    others = list(points(names, integers))
    for index, value in enumerate(values):
        for name in names:
            is_integer = name in integers or name.startswith("#")
            yield others[index % _POINTS] | {name: Fraction(1 + abs(round(value))) if is_integer else value}


def real_values(
    left: Node,
    right: Node,
    at: Iterable[dict[str, Fraction]],
    arithmetic: Arithmetic,
    degree_is_one: bool = False,
) -> Iterable[tuple[Value, Value]]:
    """The values of both at those points at which both are real and can be computed."""
    for point in at:
        evaluator = Evaluator(point, degree_is_one, arithmetic)
        arithmetic.met_complex = False
        try:
            values = evaluator.value(left), evaluator.value(right)
        except (TooComplex, Undefined):
            continue
        if not arithmetic.met_complex:
            yield values


def _has_kinks(node: Node) -> bool:
    """Whether it has a function that is not analytic everywhere: `|x|`, a root, a power of zero."""
    match node:
        case Call(function, _) if function in _WITH_KINKS and symbols(node):
            return True
        case Power(base, exponent) if symbols(base) and not symbols(exponent):
            if not (isinstance(exponent, Number) and exponent.value.denominator == 1):
                return True
        case Power(Number(value), exponent) if value == 0 and symbols(exponent):
            return True
    return any(map(_has_kinks, children(node)))


def _possible_kinks(left: Node, right: Node, arithmetic: Arithmetic) -> list[Fraction]:
    """Zero, the constants of both, and what two of them make by the four operations; without signs."""
    constants = dict.fromkeys([*_constants(left, arithmetic), *_constants(right, arithmetic)])
    kinks = dict.fromkeys([Fraction(0), *constants])
    pairs = list(combinations_with_replacement(list(constants)[:_MOST_KINKS], 2))
    kinks |= dict.fromkeys(value for one, other in pairs for value in (one + other, abs(one - other)))
    kinks |= dict.fromkeys(value for one, other in pairs for value in (one / other, other / one, one * other))
    return list(kinks)[:_MOST_KINKS]


def _constants(node: Node, arithmetic: Arithmetic) -> list[Fraction]:
    """The magnitudes, to six decimals, of the largest subexpressions without variables."""
    if symbols(node):
        return [value for child in children(node) for value in _constants(child, arithmetic)]
    try:
        value = Evaluator(arithmetic=arithmetic).value(node)
    except (TooComplex, Undefined):
        return []
    if arithmetic.is_complex(value) or abs(value) > _LARGEST_KINK:
        return []
    rational = abs(value if isinstance(value, Fraction) else Fraction(int(value * 10**6), 10**6))
    return [rational] if rational else []


@dataclass
class _Comparison:
    """One comparison of two expressions, with one work allowance for all their parts."""

    degree_is_one: bool
    arithmetic: Arithmetic = field(default_factory=Arithmetic)
    comparisons: int = 0
    """How many subexpressions have been compared."""

    def equal(self, left: Node, right: Node) -> bool:
        self.comparisons += 1
        if left == right:
            return True
        if self.comparisons > _MOST_COMPARISONS:
            return False
        try:
            names = symbols(left) | symbols(right)
            if names:
                return self._equal_at_points(left, right, sorted(names))
            evaluator = Evaluator(degree_is_one=self.degree_is_one, arithmetic=self.arithmetic)
            return same_value(evaluator.value(left), evaluator.value(right), self.arithmetic)
        except (TooComplex, Undefined):
            return self._same_structure(left, right)

    def _equal_at_points(self, left: Node, right: Node, names: list[str]) -> bool:
        """Compares where both are real, or everywhere if too few such points exist or the expressions have an i."""
        everywhere = contains(left, Constant("i")) or contains(right, Constant("i"))
        agreements = complex_agreements = complex_differences = 0
        integers = _integer_names(left) | _integer_names(right)
        for index, point in enumerate(points(names, integers)):
            evaluator = Evaluator(point, self.degree_is_one, self.arithmetic)
            self.arithmetic.met_complex = False
            try:
                values = evaluator.value(left), evaluator.value(right)
            except Undefined:
                continue
            same = same_value(*values, self.arithmetic)
            if everywhere or not self.arithmetic.met_complex:
                if not same:
                    return False
                agreements += 1
            elif same:
                complex_agreements += 1
            else:
                complex_differences += 1
            if index >= _FIRST_POINTS and agreements >= _SUFFICIENT_AGREEMENTS:
                break
        if not agreements + complex_agreements + complex_differences:
            raise Undefined("no value at any point")
        if agreements + complex_agreements < _SUFFICIENT_AGREEMENTS:
            return False
        if agreements < _SUFFICIENT_AGREEMENTS and complex_differences:
            return False
        further = further_points(left, right, self.arithmetic, integers)
        pairs = real_values(left, right, further, self.arithmetic, self.degree_is_one)
        return all(near_value(*values, self.arithmetic) for values in pairs)

    def _same_structure(self, left: Node, right: Node) -> bool:
        """The same operations on equal operands; the operands of sums and products in any order."""
        if isinstance(left, Series) and isinstance(right, Series):
            left, right = _from_zero(left), _from_zero(right)
        left_operands, right_operands = children(left), children(right)
        if type(left) is not type(right) or getattr(left, "function", None) != getattr(right, "function", None):
            return False
        if len(left_operands) != len(right_operands) or not 0 < len(left_operands) <= _MOST_OPERANDS:
            return False
        if not isinstance(left, Sum | Product):
            return all(map(self.equal, left_operands, right_operands))
        return same_in_some_order(left_operands, right_operands, self.equal)


_Item = TypeVar("_Item")


def same_in_some_order(left: Sequence[_Item], right: Sequence[_Item], same: Callable[[_Item, _Item], bool]) -> bool:
    """Whether each item on the left has one of its own on the right, and none is left over."""
    rest = list(right)
    for one in left:
        match = next((index for index, other in enumerate(rest) if same(one, other)), None)
        if match is None:
            return False
        del rest[match]
    return not rest


def _integer_names(node: Node) -> frozenset[str]:
    """The integer variables: those in the bounds of a series, and indices."""
    own = symbols(node.first) | symbols(node.last) if isinstance(node, Series) else frozenset()
    return own.union(*map(_integer_names, children(node)))


def _from_zero(series: Series) -> Series:
    """The same series with its index counted from zero."""
    zero = Number(Fraction(0))
    if series.first == zero:
        return series
    shifted = Sum((Symbol(series.index), series.first))
    last = series.last if series.last == Constant("infinity") else Sum((series.last, Negative(series.first)))
    return Series(series.function, series.index, zero, last, replaced(series.body, Symbol(series.index), shifted))
