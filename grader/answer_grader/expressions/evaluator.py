"""The value of an expression at a point, with sums and products of series."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from answer_grader.bounds import MAX_TERMS, TooComplex
from answer_grader.expressions.arithmetic import Arithmetic, Undefined, Value
from answer_grader.expressions.functions import call
from answer_grader.expressions.nodes import (
    Call,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quotient,
    Series,
    Sum,
    Symbol,
)

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
    if arithmetic.is_infinite(last) and not arithmetic.is_complex(last) and last > 0:
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


@dataclass
class Evaluator:
    """Evaluates expressions with given values of the variables.

    `degree` is what the degree sign multiplies with: pi / 180, or 1 where an answer in degrees is meant.
    """

    variables: Mapping[str, Fraction] = field(default_factory=dict)
    degree_is_one: bool = False
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    def value(self, node: Node) -> Value:
        """Raises Undefined where there is no value, TooComplex beyond the bounds."""
        arithmetic = self.arithmetic
        match node:
            case Number(value):
                return arithmetic.exact(value)
            case Symbol(name):
                if name not in self.variables:
                    raise Undefined(f"{name} has no value")
                return self.variables[name]
            case Constant(name):
                return self._constant(name)
            case Sum(terms):
                total: Value = Fraction(0)
                for term in terms:
                    total = arithmetic.add(total, self.value(term))
                return total
            case Product(factors):
                product: Value = Fraction(1)
                for factor in factors:
                    product = arithmetic.multiply(product, self.value(factor))
                return product
            case Quotient(numerator, denominator):
                return arithmetic.divide(self.value(numerator), self.value(denominator))
            case Negative(operand):
                return -self.value(operand)
            case Power(base, exponent):
                return arithmetic.power(self.value(base), self.value(exponent))
            case Call("det", (Matrix(rows),)):
                return self._determinant([[self.value(entry) for entry in row] for row in rows])
            case Series(function, index, first, last, body):
                ends = self.value(first), self.value(last)
                return series_value(function, *ends, lambda at: self._with(index, at).value(body), arithmetic)
            case Call(function, arguments):
                return call(function, [self.value(argument) for argument in arguments], arithmetic)
            case Matrix() | PlusMinus():
                raise Undefined("not one number")

    def _with(self, name: str, value: Fraction) -> "Evaluator":
        return Evaluator({**self.variables, name: value}, self.degree_is_one, self.arithmetic)

    def _constant(self, name: str) -> Value:
        context = self.arithmetic.context
        match name:
            case "pi":
                return +context.pi
            case "e":
                return +context.e
            case "i":
                return context.mpc(0, 1)
            case "infinity":
                return +context.inf
            case "percent":
                return Fraction(1, 100)
            case _:
                assert name == "degree"
                return Fraction(1) if self.degree_is_one else context.pi / 180

    def _determinant(self, rows: list[list[Value]]) -> Value:
        """By expansion along the first row; answers have small matrices."""
        if any(len(row) != len(rows) for row in rows) or len(rows) > 5:
            raise Undefined("no determinant")
        if len(rows) == 1:
            return rows[0][0]
        total: Value = Fraction(0)
        for column, entry in enumerate(rows[0]):
            minor = self._determinant([row[:column] + row[column + 1 :] for row in rows[1:]])
            term = self.arithmetic.multiply(entry, minor)
            total = self.arithmetic.add(total, -term if column % 2 else term)
        return total
