"""The families of generated problems: each draws one problem, its worked steps and its exact answer.

Operands have one digit, so that a model of half a million parameters learns a good part of them within a minute, and not all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random


@dataclass(frozen=True)
class Draft:
    """What a family draws: the text, the worked steps, the answer, and for a multiple choice the wrong options."""

    text: str
    steps: str
    answer: str
    incorrect: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """A subject (as MATH-500 has one for each problem) and the draw."""

    subject: str
    make: Callable[[Random], Draft]


def _digits(rng: Random, count: int) -> list[int]:
    return [rng.randint(1, 9) for _ in range(count)]


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
    a, b = _digits(rng, 2)
    return Draft(f"What is {a} * {b}?", f"{a} * {b} = {a * b}", str(a * b))


def _product_sum(rng: Random) -> Draft:
    a, b, c = _digits(rng, 3)
    steps = f"{a} * {b} = {a * b}, {a * b} + {c} = {a * b + c}"
    return Draft(f"What is {a} * {b} + {c}?", steps, str(a * b + c))


def _triple_product(rng: Random) -> Draft:
    a, b, c = _digits(rng, 3)
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


FAMILIES: dict[str, Family] = {
    "sum": Family("Prealgebra", _sum),
    "difference": Family("Prealgebra", _difference),
    "product": Family("Prealgebra", _product),
    "product_sum": Family("Algebra", _product_sum),
    "triple_product": Family("Number Theory", _triple_product),
    "fraction": Family("Algebra", _fraction),
    "pair": Family("Precalculus", _pair),
    "more": Family("Intermediate Algebra", _more),
    "percent": Family("Prealgebra", _percent),
}

# Symbols of elements and units of quantities: facts that a small model can hold.
_ELEMENTS = {
    "H": "hydrogen", "He": "helium", "C": "carbon", "N": "nitrogen", "O": "oxygen", "Na": "sodium", "K": "potassium",
    "Fe": "iron", "Cu": "copper", "Ag": "silver", "Au": "gold", "Pb": "lead", "Hg": "mercury", "Sn": "tin",
}  # fmt: skip
_UNITS = {
    "force": "newton", "energy": "joule", "power": "watt", "pressure": "pascal", "charge": "coulomb",
    "voltage": "volt", "frequency": "hertz", "resistance": "ohm", "mass": "kilogram", "length": "metre",
}  # fmt: skip


def _fact(table: dict[str, str], question: str, step: str) -> Callable[[Random], Draft]:
    def make(rng: Random) -> Draft:
        key = rng.choice(list(table))
        wrong = rng.sample([value for value in table.values() if value != table[key]], 3)
        steps = step.replace("KEY", key).replace("VALUE", table[key])
        return Draft(question.replace("KEY", key), steps, table[key], tuple(wrong))

    return make


def _physics(question: str, unit: str) -> Callable[[Random], Draft]:
    def make(rng: Random) -> Draft:
        a, b = rng.randint(2, 9), rng.randint(2, 9)
        near = [a * b + step for step in (-b, -a, -2, -1, 1, 2, a, b) if a * b + step > 0]
        wrong = tuple(f"{value} {unit}" for value in rng.sample(sorted(set(near)), 3))
        text = question.replace("A", str(a), 1).replace("B", str(b), 1)
        return Draft(text, f"{a} * {b} = {a * b}", f"{a * b} {unit}", wrong)

    return make


def _inverse(table: dict[str, str]) -> dict[str, str]:
    return {value: key for key, value in table.items()}


CHOICE_FAMILIES: dict[str, Family] = {
    "element": Family("Chemistry", _fact(_ELEMENTS, "Which element has the symbol KEY?", "KEY is VALUE")),
    "symbol": Family("Chemistry", _fact(_inverse(_ELEMENTS), "What is the symbol of KEY?", "KEY is VALUE")),
    "unit": Family("Physics", _fact(_UNITS, "What is the unit of KEY?", "KEY is in VALUE")),
    "quantity": Family("Physics", _fact(_inverse(_UNITS), "What is measured in KEY?", "VALUE is in KEY")),
    "work": Family("Physics", _physics("What is the work of A N over B m?", "J")),
    "voltage": Family("Physics", _physics("What is the voltage of A ohm at B ampere?", "V")),
}
