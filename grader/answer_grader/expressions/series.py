"""The values of sums and products over an index."""

from collections.abc import Callable
from fractions import Fraction

from answer_grader.bounds import MAX_TERMS, TooComplex
from answer_grader.expressions.arithmetic import Arithmetic, Undefined, Value

_STEADY = 12
"""Terms in a row that must shrink, the noise of the arithmetic reached, before an infinite sum ends."""
_TERM_WORK = 1_000
"""What one term costs whatever its value, so that series within series end too."""
_LEFT_OUT = Fraction(1, 10**20)
_SLOWEST = Fraction(1, 2)
"""The ratio of two terms above which an infinite sum is not computed. It also bounds what is left out by the last term."""


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
