"""The functions that occur in answers."""

import math
from collections.abc import Callable
from fractions import Fraction

from answer_grader.bounds import MAX_FACTORIAL, TooComplex
from answer_grader.expressions.arithmetic import Arithmetic, Undefined, Value

_LARGEST_ANGLE = 10**30


def call(name: str, arguments: list[Value], arithmetic: Arithmetic) -> Value:
    """The value of a function. Raises Undefined for a wrong number of arguments and outside of its domain."""
    if name in _OF_INTEGERS:
        return arithmetic.exact(_OF_INTEGERS[name](*_integers(arguments)))
    if name == "binom":
        return _binomial(arguments, arithmetic)
    if name == "log":
        return _logarithm(arguments, arithmetic)
    if name in ("min", "max"):
        if any(arithmetic.is_complex(argument) for argument in arguments):
            raise Undefined("no order among complex numbers")
        return (min if name == "min" else max)(arguments)
    if len(arguments) != 1:
        raise Undefined(f"{name} takes one argument")
    return _of_one(name, arguments[0], arithmetic)


def _of_one(name: str, argument: Value, arithmetic: Arithmetic) -> Value:
    if name == "abs":
        return abs(argument)
    if name in ("floor", "ceil"):
        return _rounded(name, argument, arithmetic)
    if name == "sgn":
        return Fraction((argument > 0) - (argument < 0))
    if name in ("factorial", "double_factorial"):
        return _factorial(name, argument, arithmetic)
    if name == "ln":
        return arithmetic.log(argument)
    if name == "exp":
        return arithmetic.exponential(argument)
    if name not in _ANALYTIC:
        raise Undefined(f"{name} is not computed")
    imaginary = argument.imag if arithmetic.is_complex(argument) else 0
    arithmetic.bound_magnitude(imaginary)
    arithmetic.bound_magnitude(argument, 100 if name.endswith("h") and not name.startswith("arc") else _LARGEST_ANGLE)
    arithmetic.bound_smallness(argument)
    try:
        value = _ANALYTIC[name](arithmetic, arithmetic.inexact(argument))
    except (ZeroDivisionError, ValueError) as error:
        raise Undefined(str(error)) from error
    if abs(value) > 10**60:  # a pole, met up to rounding
        raise Undefined(f"{name} at a pole")
    return arithmetic.tidy(_chop(value, arithmetic))


def _chop(value: Value, arithmetic: Arithmetic) -> Value:
    """sin(pi) and its like are zero up to rounding."""
    return Fraction(0) if abs(value) <= arithmetic.noise else value


def _logarithm(arguments: list[Value], arithmetic: Arithmetic) -> Value:
    """To the base of the second argument, or 10."""
    if len(arguments) > 2:
        raise Undefined("log takes one argument and a base")
    base = arguments[1] if len(arguments) == 2 else Fraction(10)
    return arithmetic.divide(arithmetic.log(arguments[0]), arithmetic.log(base))


def _rounded(name: str, argument: Value, arithmetic: Arithmetic) -> Fraction:
    if arithmetic.is_complex(argument):
        raise Undefined("no order among complex numbers")
    if isinstance(argument, Fraction):
        return Fraction(math.floor(argument) if name == "floor" else math.ceil(argument))
    arithmetic.bound_magnitude(argument, _LARGEST_ANGLE)
    nearest = arithmetic.context.nint(argument)
    if abs(argument - nearest) <= arithmetic.noise * max(1, abs(argument)):
        return Fraction(int(nearest))
    return Fraction(int(arithmetic.context.floor(argument) if name == "floor" else arithmetic.context.ceil(argument)))


def _factorial(name: str, argument: Value, arithmetic: Arithmetic) -> Value:
    if isinstance(argument, Fraction) and argument.denominator == 1:
        n = argument.numerator
        if n < 0:
            raise Undefined("the factorial of a negative number")
        if n > MAX_FACTORIAL:
            raise TooComplex("a factorial with too many digits")
        return arithmetic.exact(Fraction(math.factorial(n) if name == "factorial" else math.prod(range(n, 0, -2))))
    if name == "double_factorial":
        raise Undefined("a double factorial of no integer")
    arithmetic.bound_magnitude(argument, MAX_FACTORIAL)
    return arithmetic.tidy(arithmetic.context.gamma(arithmetic.inexact(argument) + 1))


def _integers(arguments: list[Value]) -> list[int]:
    for argument in arguments:
        if not isinstance(argument, Fraction) or argument.denominator != 1:
            raise Undefined("a function of integers")
    return [argument.numerator for argument in arguments]


def _binomial(arguments: list[Value], arithmetic: Arithmetic) -> Value:
    """n over k; neither need be an integer, so that formulas can be compared anywhere."""
    if len(arguments) != 2:
        raise Undefined("a binomial coefficient takes two arguments")
    n, k = arguments
    if isinstance(n, Fraction) and isinstance(k, Fraction) and n.denominator == k.denominator == 1 and n >= k >= 0:
        k = min(k, n - k)
    if not isinstance(k, Fraction) or k.denominator != 1:
        for argument in (n, k):
            arithmetic.bound_magnitude(argument, MAX_FACTORIAL)
        value = arithmetic.context.binomial(arithmetic.inexact(n), arithmetic.inexact(k))
        if arithmetic.context.isinf(value):
            raise Undefined("a binomial coefficient at a pole")
        return arithmetic.tidy(value)
    if k < 0:
        raise Undefined("a binomial coefficient outside of its domain")
    if k > MAX_FACTORIAL:
        raise TooComplex("a binomial coefficient with too many digits")
    result: Value = Fraction(1)
    for index in range(int(k)):
        result = arithmetic.divide(
            arithmetic.multiply(result, arithmetic.add(n, Fraction(-index))), Fraction(index + 1)
        )
    return result


_OF_INTEGERS: dict[str, Callable[..., Fraction]] = {
    "gcd": lambda *arguments: Fraction(math.gcd(*arguments)),
    "lcm": lambda *arguments: Fraction(math.lcm(*arguments)),
}


def _context_function(name: str) -> Callable[[Arithmetic, Value], Value]:
    return lambda arithmetic, argument: getattr(arithmetic.context, name)(argument)


_ANALYTIC: dict[str, Callable[[Arithmetic, Value], Value]] = {
    name: _context_function(name)
    for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "sech", "csch")
}
_ANALYTIC |= {
    f"arc{name}": _context_function(f"a{name}")
    for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")
}
_ANALYTIC["cis"] = lambda arithmetic, argument: arithmetic.context.expj(argument)
