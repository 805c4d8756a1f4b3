r"""Sums and products over an index: `\sum_{k=1}^{n} k^2`, `\prod_{k=2}^{10} \frac{k-1}{k}`."""

from collections.abc import Callable
from fractions import Fraction

from stair.grading.bounds import MAX_TERMS, TooComplex
from stair.grading.expressions.arithmetic import Arithmetic, Undefined, Value
from stair.grading.expressions.cursor import NotAnExpression
from stair.grading.expressions.grammar import Grammar
from stair.grading.expressions.nodes import (
    Constant,
    Negative,
    Node,
    Number,
    Series,
    Sum,
    Symbol,
    children,
    replaced,
    symbols,
)
from stair.grading.expressions.words import CONSTANT_LETTERS

_STEADY = 12
"""Terms in a row that must shrink, the noise of the arithmetic reached, before an infinite sum ends."""
_TERM_WORK = 1_000
"""What one term costs whatever its value, so that series within series end too."""
_LEFT_OUT = Fraction(1, 10**20)
_SLOWEST = Fraction(1, 2)
"""The ratio of two terms above which an infinite sum is not computed. It also bounds what is left out by the last term."""


def read_series(parser: Grammar, function: str) -> Node:
    """The series after its sign: its bounds in either order, and the product that follows."""
    index: str | None = None
    first: Node | None = None
    last: Node | None = None
    while True:
        if first is None and parser.take_sign("_"):
            parser.expect("{")
            index = parser.advance().text
            parser.expect("=")
            first = parser.expression()
            parser.expect("}")
        elif last is None and parser.next_is_sign("^"):
            parser.position += 1
            last = parser.exponent()
        else:
            break
    if index is None or first is None or last is None or len(index) != 1:
        raise NotAnExpression(f"a {function} without its bounds")
    body = parser.term()
    name = f"#{_depth(body)}"
    written: Node = Constant(CONSTANT_LETTERS[index]) if index in CONSTANT_LETTERS else Symbol(index)
    return Series(function, name, first, last, replaced(body, written, Symbol(name)))


def _depth(node: Node) -> int:
    inside = max(map(_depth, children(node)), default=0)
    return inside + 1 if isinstance(node, Series) else inside


def from_zero(series: Series) -> Series:
    """The same series with its index counted from zero."""
    zero = Number(Fraction(0))
    if series.first == zero:
        return series
    shifted = Sum((Symbol(series.index), series.first))
    last = series.last if series.last == Constant("infinity") else Sum((series.last, Negative(series.first)))
    return Series(series.function, series.index, zero, last, replaced(series.body, Symbol(series.index), shifted))


def integer_names(node: Node) -> frozenset[str]:
    """The variables that stand for integers: in the bounds of a series, and indices."""
    own = symbols(node.first) | symbols(node.last) if isinstance(node, Series) else frozenset()
    return own.union(*map(integer_names, children(node)))


def series_value(
    function: str, first: Value, last: Value, term: Callable[[Fraction], Value], arithmetic: Arithmetic
) -> Value:
    """The value of a series; `term` gives that of one term. A series without terms is 0, or 1 for a product.

    An infinite sum has a value where its terms shrink at least geometrically by 1/2. Raises Undefined where it has
    none that can be computed, and TooComplex beyond the bounds.
    """
    if not isinstance(first, Fraction) or first.denominator != 1:
        raise Undefined("a series that does not begin at an integer")
    if (
        not arithmetic.is_complex(last)
        and not isinstance(last, Fraction)
        and arithmetic.context.isinf(last)
        and last > 0
    ):
        return _infinite_sum(function, first, term, arithmetic)
    if not isinstance(last, Fraction) or last.denominator != 1:
        raise Undefined("a series that does not end at an integer")
    if last - first >= MAX_TERMS:
        raise TooComplex("a series of too many terms")
    join = arithmetic.add if function == "sum" else arithmetic.multiply
    total: Value = Fraction(0 if function == "sum" else 1)
    for index in range(int(first), int(last) + 1):
        arithmetic.spend(_TERM_WORK)
        total = join(total, term(Fraction(index)))
    return total


def _infinite_sum(function: str, first: Fraction, term: Callable[[Fraction], Value], arithmetic: Arithmetic) -> Value:
    if function != "sum":
        raise Undefined("an infinite product")
    total: Value = arithmetic.context.mpf(0)
    before: Value = None
    steady = 0
    for index in range(MAX_TERMS):
        arithmetic.spend(_TERM_WORK)
        value = arithmetic.inexact(term(first + index))
        if value == 0:
            continue
        shrinks = before is not None and abs(value) <= arithmetic.inexact(_SLOWEST) * abs(before)
        steady = steady + 1 if shrinks else 0
        if index > 3 * _STEADY and not shrinks:
            raise Undefined("an infinite sum that converges slowly or not at all")
        before = value
        total = arithmetic.tidy(total + value)
        if steady >= _STEADY and abs(value) <= arithmetic.noise * arithmetic.inexact(_LEFT_OUT):
            return total
    raise Undefined("an infinite sum that converges slowly or not at all")
