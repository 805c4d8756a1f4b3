"""The families of generated problems: each draws one problem, its worked steps and its exact answer.

Most operands go to seven and factors to six, so that a model of about a million parameters learns a good part of them within
two minutes, and not all.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import NamedTuple


class Draft(NamedTuple):
    """A drawn problem: the text, the worked steps, the answer, and for a multiple choice the wrong options."""

    text: str
    steps: str
    answer: str
    incorrect: tuple[str, ...] = ()


class ProblemFamily(NamedTuple):
    """A subject (as MATH-500 has one for each problem) and the draw."""

    subject: str
    draw: Callable[[Random], Draft]


def _digits(rng: Random, count: int) -> list[int]:
    return [rng.randint(1, 7) for _ in range(count)]


def _factors(rng: Random) -> tuple[int, int]:
    return rng.randint(1, 6), rng.randint(1, 6)


def _latex(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def _sum(rng: Random) -> Draft:
    a, b = _digits(rng, 2)
    return Draft(f"What is {a} + {b}?", f"{a} + {b} = {a + b}", str(a + b))


def _difference(rng: Random) -> Draft:
    a, b = _digits(rng, 2)
    return Draft(f"What is {a} - {b}?", f"{a} - {b} = {a - b}", str(a - b))


def _product(rng: Random) -> Draft:
    a, b = _factors(rng)
    return Draft(f"What is {a} * {b}?", f"{a} * {b} = {a * b}", str(a * b))


def _product_sum(rng: Random) -> Draft:
    a, b = _factors(rng)
    c = rng.randint(1, max(1, 9 - a * b % 10))  # no carry, but where the product ends in 9
    steps = f"{a} * {b} = {a * b}, {a * b} + {c} = {a * b + c}"
    return Draft(f"What is {a} * {b} + {c}?", steps, str(a * b + c))


def _triple_product(rng: Random) -> Draft:
    a, b, c = (rng.randint(1, 4) for _ in range(3))
    return Draft(f"What is {a} * {b} * {c}?", f"{a} * {b} = {a * b}, {a * b} * {c} = {a * b * c}", str(a * b * c))


def _fraction(rng: Random) -> Draft:
    a, b, d = _digits(rng, 3)
    text = f"What is \\frac{{{a}}}{{{d}}} + \\frac{{{b}}}{{{d}}}?"
    return Draft(text, f"{a} + {b} = {a + b}, over {d}", _latex(Fraction(a + b, d)))


def _pair(rng: Random) -> Draft:
    a, b, c, d = _digits(rng, 4)
    return Draft(
        f"What is ({a}, {b}) + ({c}, {d})?", f"{a} + {c} = {a + c}, {b} + {d} = {b + d}", f"({a + c}, {b + d})"
    )


def _more(rng: Random) -> Draft:
    a, b, c = _digits(rng, 3)
    answer = "\\text{Yes}" if a + b > c + 5 else "\\text{No}"
    return Draft(f"Is {a} + {b} more than {c + 5}?", f"{a} + {b} = {a + b}", answer)


def _percent(rng: Random) -> Draft:
    whole, part = rng.choice((10, 20, 25, 50)), rng.randint(1, 9)
    percent = part * 100 // whole
    return Draft(f"What percent of {whole} is {part}?", f"{part} * {100 // whole} = {percent}", f"{percent}\\%")


FAMILIES: dict[str, ProblemFamily] = {
    "sum": ProblemFamily("Prealgebra", _sum),
    "difference": ProblemFamily("Prealgebra", _difference),
    "product": ProblemFamily("Prealgebra", _product),
    "product_sum": ProblemFamily("Algebra", _product_sum),
    "triple_product": ProblemFamily("Number Theory", _triple_product),
    "fraction": ProblemFamily("Algebra", _fraction),
    "pair": ProblemFamily("Precalculus", _pair),
    "more": ProblemFamily("Intermediate Algebra", _more),
    "percent": ProblemFamily("Prealgebra", _percent),
}

_ELEMENTS = ("hydrogen", "helium", "lithium", "beryllium", "boron", "carbon", "nitrogen", "oxygen", "fluorine")


def _wrong(rng: Random, right: int) -> tuple[str, ...]:
    """Three wrong options, of one digit as the right one."""
    return tuple(map(str, rng.sample([n for n in range(1, 10) if n != right], 3)))


def _protons(rng: Random) -> Draft:
    number = rng.randint(1, len(_ELEMENTS))
    text = f"How many protons has {_ELEMENTS[number - 1]}?"
    return Draft(text, f"It has {number}", str(number), _wrong(rng, number))


def _law(question: str, sign: str) -> Callable[[Random], Draft]:
    """A law of physics that is a sum (`+`) or a difference (`-`) of one digit; `{a}` and `{b}` are its quantities."""

    def draw(rng: Random) -> Draft:
        high, low = sorted(rng.sample(range(1, 10), 2), reverse=True)
        a, b = (high, low) if sign == "-" else (low, high - low)
        result = a - b if sign == "-" else a + b
        return Draft(question.format(a=a, b=b), f"{a} {sign} {b} = {result}", str(result), _wrong(rng, result))

    return draw


# The options are single digits: a model learns to distinguish names and longer numbers only in a longer training.
CHOICE_FAMILIES: dict[str, ProblemFamily] = {
    "protons": ProblemFamily("Chemistry", _protons),
    "ion": ProblemFamily("Chemistry", _law("What is the charge of {a} protons and {b} electrons?", "-")),
    "mass_number": ProblemFamily("Chemistry", _law("What is the mass number of {a} protons and {b} neutrons?", "+")),
    "heating": ProblemFamily("Physics", _law("By how many kelvin does {b} K rise to {a} K?", "-")),
    "series": ProblemFamily("Physics", _law("How many ohms are {a} ohm and {b} ohm in series?", "+")),
}
