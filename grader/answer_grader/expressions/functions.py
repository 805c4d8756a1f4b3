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
        return arithmetic.exact(Fraction(_OF_INTEGERS[name](*_integers(arguments))))
    if name in ("min", "max", "floor", "ceil", "sgn") and any(map(arithmetic.is_complex, arguments)):
        raise Undefined("no order among complex numbers")
    if name in ("min", "max"):
        return (min if name == "min" else max)(arguments, key=arithmetic.inexact)
    if name == "binom":
        return _binomial(arguments, arithmetic)
    if name == "log" and len(arguments) == 2:
        return arithmetic.divide(*map(arithmetic.log, arguments))
    if len(arguments) != 1:
        raise Undefined(f"{name} takes one argument")
    return _of_one(name, arguments[0], arithmetic)


def _of_one(name: str, argument: Value, arithmetic: Arithmetic) -> Value:
    match name:
        case "abs":
            return abs(argument)
        case "floor" | "ceil":
            return _rounded(name, argument, arithmetic)
        case "sgn":
            return Fraction((argument > 0) - (argument < 0))
        case "factorial" | "double_factorial":
            return _factorial(name, argument, arithmetic)
        case "ln":
            return arithmetic.log(argument)
        case "log":
            return arithmetic.divide(arithmetic.log(argument), arithmetic.log(Fraction(10)))
        case "exp":
            return arithmetic.exponential(argument)
    if name not in _ANALYTIC:
        raise Undefined(f"{name} is not computed")
    if arithmetic.is_complex(argument):
        arithmetic.bound_magnitude(argument.imag)
    arithmetic.bound_magnitude(argument, 100 if name.endswith("h") and not name.startswith("arc") else _LARGEST_ANGLE)
    arithmetic.bound_smallness(argument)
    try:
        value = getattr(arithmetic.context, _ANALYTIC[name])(arithmetic.inexact(argument))
    except (ZeroDivisionError, ValueError) as error:
        raise Undefined(str(error)) from error
    if abs(value) > 10**60:  # a pole, met up to rounding
        raise Undefined(f"{name} at a pole")
    return arithmetic.tidy(Fraction(0) if abs(value) <= arithmetic.noise else value)  # sin(pi) is zero up to rounding


def _rounded(name: str, argument: Value, arithmetic: Arithmetic) -> Fraction:
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
        if arithmetic.is_infinite(value):
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


_OF_INTEGERS: dict[str, Callable[..., int]] = {"gcd": math.gcd, "lcm": math.lcm}
_TRIGONOMETRIC = ["sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "sech", "csch"]
_ANALYTIC = (
    {"cis": "expj"}
    | {name: name for name in _TRIGONOMETRIC}
    | {f"arc{name}": f"a{name}" for name in _TRIGONOMETRIC if name not in ("coth", "sech", "csch")}
)
"""Their names in mpmath."""
