"""Rational functions are compared exactly, by sympy's polynomials over the rationals.

Only arithmetic of polynomials is asked of sympy, on trees that our parser has built: nothing is parsed, evaluated or simplified
there, and the number of terms is bounded, so that it always ends.
"""

from __future__ import annotations

from functools import cache
from math import comb
from typing import Any

from stair.scoring.bounds import MAX_BITS, MAX_POLYNOMIAL_TERMS
from stair.scoring.expressions.nodes import (
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


def equal_functions(left: Node, right: Node) -> bool | None:
    """Whether two rational functions are the same one; None where one of them is none, or is too large."""
    names = sorted(symbols(left) | symbols(right))
    variables = dict(zip(names, _variables(len(names)), strict=True))
    try:
        (above, below), (other_above, other_below) = (_quotient(node, variables) for node in (left, right))
        return bool(_times(above, other_below) == _times(other_above, below))
    except NotRational:
        return None


@cache
def _variables(count: int) -> tuple[Polynomial, ...]:
    from sympy import QQ  # a quarter of a second, and most pairs have no variable
    from sympy.polys.rings import ring

    return tuple(ring([f"x{number}" for number in range(count)], QQ)[1:])


def _quotient(node: Node, variables: dict[str, Polynomial]) -> tuple[Polynomial, Polynomial]:
    """Numerator and denominator, not reduced: a common factor changes no comparison."""
    ring = next(iter(variables.values())).ring
    match node:
        case Number(value):
            domain = ring.domain
            return ring(domain(value.numerator, value.denominator)), ring.one
        case Symbol(name):
            return variables[name], ring.one
        case Negative(operand):
            above, below = _quotient(operand, variables)
            return -above, below
        case Sum(terms):
            above, below = ring.zero, ring.one
            for term in terms:
                more, under = _quotient(term, variables)
                above, below = _times(above, under) + _times(more, below), _times(below, under)
            return above, below
        case Product(factors):
            above, below = ring.one, ring.one
            for factor in factors:
                more, under = _quotient(factor, variables)
                above, below = _times(above, more), _times(below, under)
            return above, below
        case Quotient(numerator, denominator):
            above, below = _quotient(numerator, variables)
            more, under = _quotient(denominator, variables)
            return _times(above, under), _nonzero(_times(below, more))
        case Power(base, exponent):
            above, below = _quotient(base, variables)
            number = _integer(exponent)
            if number < 0:
                above, below, number = below, _nonzero(above), -number
            return _power(above, number), _power(below, number)
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


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left) * len(right) > MAX_POLYNOMIAL_TERMS or _bits(left) + _bits(right) > MAX_BITS:
        raise NotRational
    return left * right


def _power(base: Polynomial, exponent: int) -> Polynomial:
    if base == 0:
        raise NotRational  # with an exponent that may be zero, too
    if exponent > MAX_BITS or comb(len(base) - 1 + exponent, exponent) > MAX_POLYNOMIAL_TERMS:
        raise NotRational
    if _bits(base) * exponent > MAX_BITS:
        raise NotRational
    return base**exponent


def _bits(polynomial: Polynomial) -> int:
    """The size of its largest coefficient."""
    return max(
        (max(abs(int(c.numerator)).bit_length(), int(c.denominator).bit_length()) for c in polynomial.values()),
        default=0,
    )
