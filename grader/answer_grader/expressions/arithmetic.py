"""Exact and high-precision arithmetic on values, bounded in size and work.

A value is a `Fraction` while it is rational, and an mpmath number of `DIGITS` digits otherwise. A sum that cancels all
but the last digits of its terms is zero: two different answers do not agree in their first 130 digits.
"""

import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mpmath import MPContext

from answer_grader.bounds import MAX_BITS, MAX_EXPONENT, MAX_WORK, TooComplex

DIGITS = 150
_NOISE = Fraction(1, 10 ** (DIGITS - 20))
_LEAST = Fraction(1, 10 ** (DIGITS // 3))

Value = Any
"""Fraction, mpf or mpc. mpmath has no types."""


class Undefined(Exception):
    """The expression has no value here (a division by zero, the logarithm of zero)."""


class _ThreadContext(threading.local):
    """One mpmath context a thread: its functions change the precision while they run."""

    def __init__(self) -> None:
        self.context = MPContext()
        self.context.dps = DIGITS


_THREAD = _ThreadContext()


@dataclass
class Arithmetic:
    """The four operations and powers, with one work allowance. Not shared between threads."""

    work: int = 0
    met_complex: bool = False
    """whether any result was not real, perhaps one that was computed with further"""

    def __post_init__(self) -> None:
        self.context = _THREAD.context
        self.noise = self.inexact(_NOISE)
        self.least = self.inexact(_LEAST)

    def inexact(self, value: Value) -> Value:
        """The value as an mpmath number."""
        if isinstance(value, Fraction):
            return self.context.mpf(value.numerator) / value.denominator
        return value

    def exact(self, value: Fraction) -> Fraction:
        """Passes a fraction on that is within the bounds."""
        bits = value.numerator.bit_length() + value.denominator.bit_length()
        self.spend(bits + bits * bits // 8192)  # reducing a fraction is quadratic
        if bits > MAX_BITS:
            raise TooComplex("a number with too many digits")
        return value

    def spend(self, bits: int) -> None:
        self.work += bits
        if self.work > MAX_WORK:
            raise TooComplex("too much arithmetic")

    def add(self, left: Value, right: Value) -> Value:
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return self.exact(left + right)
        left, right = self.inexact(left), self.inexact(right)
        total = self.tidy(left + right)
        if self.is_infinite(total):
            return total
        small, large = sorted((abs(left), abs(right)))
        if 0 < small <= self.noise * large:
            raise TooComplex("a term that is lost beside another")
        return Fraction(0) if abs(total) <= self.noise * max(abs(left), abs(right)) else total

    def multiply(self, left: Value, right: Value) -> Value:
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return self.exact(left * right)
        if left == 0 or right == 0:
            if self.is_infinite(left) or self.is_infinite(right):
                raise Undefined("zero times infinity")
            return Fraction(0)
        return self.tidy(self.inexact(left) * self.inexact(right))

    def divide(self, left: Value, right: Value) -> Value:
        if right == 0:
            raise Undefined("a division by zero")
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return self.exact(left / right)
        return self.tidy(self.inexact(left) / self.inexact(right))

    def power(self, base: Value, exponent: Value) -> Value:
        """`base ** exponent`; the real root where a negative base has one (`(-8)^(1/3)` is -2)."""
        if base == 0:
            return self._power_of_zero(exponent)
        if isinstance(exponent, Fraction):
            if exponent.denominator == 1:
                return self._integer_power(base, exponent.numerator)
            if isinstance(base, Fraction):
                exact = self._rational_power(base, exponent)
                if exact is not None:
                    return exact
                if base < 0 and exponent.denominator % 2:
                    sign = -1 if exponent.numerator % 2 else 1
                    return sign * self.power(-base, exponent)
            elif not self.is_complex(base) and base < 0 and exponent.denominator % 2:
                return (-1 if exponent.numerator % 2 else 1) * self.power(-base, exponent)
        logarithm = self.multiply(exponent, self.log(base))
        return self.exponential(logarithm)

    def exponential(self, value: Value) -> Value:
        if value == 0:
            return Fraction(1)
        self.bound_magnitude(value)
        self.bound_smallness(value)
        return self.tidy(self.context.exp(self.inexact(value)))

    def log(self, value: Value) -> Value:
        if value == 0:
            raise Undefined("the logarithm of zero")
        if value == 1:
            return Fraction(0)
        self.bound_smallness(value - 1)
        return self.tidy(self.context.log(self.inexact(value)))

    def bound_magnitude(self, value: Value, limit: int = MAX_EXPONENT) -> None:
        """Refuses arguments for which a function would need more digits than there are."""
        if abs(value) > limit:
            raise TooComplex("a number of a magnitude beyond the bounds")

    def bound_smallness(self, value: Value) -> None:
        """Refuses numbers so small that a function of them could not be told from its value at zero."""
        if 0 < abs(self.inexact(value)) < self.least:
            raise TooComplex("a number too small to be told from zero")

    def tidy(self, value: Value) -> Value:
        """Drops the rounding noise in one part of a complex number; refuses what is no number."""
        self.spend(4 * DIGITS)
        if self.context.isnan(value):
            raise Undefined("no number")
        if not self.is_complex(value):
            return value
        self.met_complex = True
        if abs(value.imag) <= self.noise * abs(value):
            return value.real
        if abs(value.real) <= self.noise * abs(value):
            return self.context.mpc(0, value.imag)
        return value

    def is_complex(self, value: Value) -> bool:
        return isinstance(value, self.context.mpc)

    def is_infinite(self, value: Value) -> bool:
        return not isinstance(value, Fraction) and bool(self.context.isinf(value))

    def _power_of_zero(self, exponent: Value) -> Value:
        if self.is_complex(exponent) or exponent < 0:
            raise Undefined("a power of zero")
        return Fraction(1 if exponent == 0 else 0)

    def _integer_power(self, base: Value, exponent: int) -> Value:
        if isinstance(base, Fraction):
            if abs(base) == 1:
                return base ** (exponent % 2)
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if abs(exponent) * (bits - 1) > MAX_BITS:
                raise TooComplex("a power with too many digits")
            return self.exact(base**exponent)
        if self.is_infinite(base):
            if exponent == 0:  # 1 for mpmath 1.4, no number for earlier versions
                raise Undefined("infinity to the power of zero")
            return self.tidy(base**exponent)
        self.bound_magnitude(exponent * self.context.log(abs(base)))
        return self.tidy(base**exponent)

    def _rational_power(self, base: Fraction, exponent: Fraction) -> Fraction | None:
        """The rational value of a root, where it has one."""
        index = exponent.denominator
        if index > 64 or (base < 0 and index % 2 == 0):
            return None
        parts = [_integer_root(abs(part), index) for part in (base.numerator, base.denominator)]
        if parts[0] is None or parts[1] is None:
            return None
        root = Fraction(parts[0], parts[1])
        power = self._integer_power(-root if base < 0 else root, exponent.numerator)
        assert isinstance(power, Fraction)
        return power


def _integer_root(value: int, index: int) -> int | None:
    """The integer whose power is `value`, if there is one. Newton's method from above."""
    root = 1 << -(-value.bit_length() // index)
    while (power := root ** (index - 1)) * root > value:
        root -= -(-(power * root - value) // (index * power))
    return root if power * root == value else None
