"""Whether two expressions are equal.

Constants are compared by their values, exactly where they are rational and in 130 digits otherwise (mpmath). Expressions with
variables are compared at rational points, in the same way: two different ones of the size of an answer do not agree at several
such points. Unlike simplification, this always ends.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from answer_grader.bounds import TooComplex
from answer_grader.expressions.arithmetic import Arithmetic, Undefined, Value
from answer_grader.expressions.evaluator import Evaluator
from answer_grader.expressions.nodes import (
    Constant,
    Negative,
    Node,
    Number,
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
        for index, point in enumerate(points(names, _integer_names(left) | _integer_names(right))):
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
                return True
        if not agreements + complex_agreements + complex_differences:
            raise Undefined("no value at any point")
        return agreements + complex_agreements >= _SUFFICIENT_AGREEMENTS and (
            agreements >= _SUFFICIENT_AGREEMENTS or complex_differences == 0
        )

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
    """The variables that stand for integers: in the bounds of a series, and indices."""
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
