"""Rational functions are compared exactly, by sympy's polynomials over the rationals.

Only arithmetic of polynomials is asked of sympy, on trees that our parser has built: nothing is parsed, evaluated or simplified
there, and terms and work are bounded as everywhere (`bounds`), so that it always ends soon.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Any

from answer_grader.bounds import MAX_BITS, MAX_POLYNOMIAL_TERMS, MAX_WORK
from answer_grader.expressions.nodes import (
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    symbols,
)

Polynomial = Any
"""sympy's `PolyElement`; the library has no types."""


class NotRational(Exception):
    """The expression is no rational function of its variables, or one with too many terms."""


def equal_rational_functions(left: Node, right: Node) -> bool | None:
    """Whether two rational functions are the same one; None where one of them is none, or is too large."""
    names = sorted(symbols(left) | symbols(right))
    functions = _Functions(dict(zip(names, _variables(len(names)), strict=True)))
    try:
        above, below = functions.quotient(left)
        other_above, other_below = functions.quotient(right)
        return bool(functions.times(above, other_below) == functions.times(other_above, below))
    except NotRational:
        return None


@cache
def _variables(count: int) -> tuple[Polynomial, ...]:
    from sympy import QQ  # a quarter of a second, and most pairs have no variable
    from sympy.polys.rings import ring

    return tuple(ring([f"x{number}" for number in range(count)], QQ)[1:])


@dataclass
class _Functions:
    """Forms polynomials of some variables, up to a bound on the work."""

    variables: dict[str, Polynomial]
    spent: int = 0
    """About the bits of all coefficients so far, as `Arithmetic` counts them."""

    def quotient(self, node: Node) -> tuple[Polynomial, Polynomial]:
        """Numerator and denominator, not reduced: a common factor changes no comparison."""
        ring = next(iter(self.variables.values())).ring
        match node:
            case Number(value):
                return ring(ring.domain(value.numerator, value.denominator)), ring.one
            case Symbol(name):
                return self.variables[name], ring.one
            case Negative(operand):
                above, below = self.quotient(operand)
                return -above, below
            case Sum(terms):
                above, below = ring.zero, ring.one
                for term in terms:
                    more, under = self.quotient(term)
                    above = self.times(above, under) + self.times(more, below)
                    below = self.times(below, under)
                return above, below
            case Product(factors):
                above, below = ring.one, ring.one
                for factor in factors:
                    more, under = self.quotient(factor)
                    above, below = self.times(above, more), self.times(below, under)
                return above, below
            case Quotient(numerator, denominator):
                above, below = self.quotient(numerator)
                more, under = self.quotient(denominator)
                return self.times(above, under), _nonzero(self.times(below, more))
            case Power(base, exponent):
                above, below = self.quotient(base)
                number = _integer(exponent)
                if number < 0:
                    above, below, number = below, _nonzero(above), -number
                return self._power(above, number), self._power(below, number)
        raise NotRational

    def times(self, left: Polynomial, right: Polynomial) -> Polynomial:
        self._spend(len(left) * len(right), _bits(left) + _bits(right))
        return left * right

    def _power(self, base: Polynomial, exponent: int) -> Polynomial:
        _nonzero(base)  # with an exponent that may be zero
        if exponent > MAX_BITS:
            raise NotRational
        self._spend(comb(len(base) - 1 + exponent, exponent), _bits(base) * exponent)
        return base**exponent

    def _spend(self, terms: int, bits: int) -> None:
        self.spent += terms * bits
        if terms > MAX_POLYNOMIAL_TERMS or bits > MAX_BITS or self.spent > MAX_WORK:
            raise NotRational


def _integer(node: Node) -> int:
    match node:
        case Number(value) if value.denominator == 1:
            return value.numerator
        case Negative(Number(value)) if value.denominator == 1:
            return -value.numerator
    raise NotRational


def _nonzero(polynomial: Polynomial) -> Polynomial:
    if polynomial == 0:
        raise NotRational
    return polynomial


def _bits(polynomial: Polynomial) -> int:
    """The size of its largest coefficient."""
    return max(
        (max(abs(int(c.numerator)).bit_length(), int(c.denominator).bit_length()) for c in polynomial.values()),
        default=0,
    )
