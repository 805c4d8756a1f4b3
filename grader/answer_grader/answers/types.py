"""The kinds of answers that are told apart."""

from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from answer_grader.expressions.nodes import Node, Symbol, symbols


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of measurement, a currency, percent or degrees; or a counted noun (`apples`)."""

    dimensions: tuple[tuple[str, int], ...] = ()
    """base units and their exponents, sorted"""
    factor: Fraction = Fraction(1)
    """how many base units one unit is"""
    noun: str = ""
    """words that are no known unit, in the singular"""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An expression, perhaps with a unit."""

    value: Node
    unit: Unit | None = None
    approximate: bool = False


@dataclass(frozen=True, slots=True)
class BasedNumeral:
    """A numeral in a base that is written beside it: `3146_7`."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """A time of day; `period` is `am`, `pm` or empty."""

    hour: int
    minute: int
    period: str = ""


@dataclass(frozen=True, slots=True)
class Ratio:
    """`3 : 2`"""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Bracketed:
    """Two or more answers in brackets: a tuple, a point, or an interval."""

    items: "tuple[Answer, ...]"
    opening: str
    closing: str


@dataclass(frozen=True, slots=True)
class FiniteSet:
    """Answers in set braces."""

    items: "tuple[Answer, ...]"


class Joiner(str, Enum):
    COMMA = ","
    OR = "or"
    AND = "and"


@dataclass(frozen=True, slots=True)
class AnswerList:
    """Several answers without brackets."""

    items: "tuple[Answer, ...]"
    joiner: Joiner = Joiner.COMMA


class SetOperator(str, Enum):
    UNION = "cup"
    INTERSECTION = "cap"
    DIFFERENCE = "setminus"


@dataclass(frozen=True, slots=True)
class SetExpression:
    """Sets joined by one operator."""

    operator: SetOperator
    parts: "tuple[Answer, ...]"


@dataclass(frozen=True, slots=True)
class NamedSet:
    """`R`, `Z`, `N`, `Q`, `C`, or `empty`."""

    name: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain of sides with the relations between them: `=`, `<`, `>`, `le`, `ge`, `ne`, `approx`, `in`, `equiv`."""

    sides: "tuple[Answer, ...]"
    operators: tuple[str, ...]
    source: tuple[str, ...] = field(default=(), compare=False)
    """the sides as text"""


@dataclass(frozen=True, slots=True)
class Family:
    r"""General solutions: the values for all integers in one variable, `k\pi` with `k \in \mathbb{Z}`."""

    values: "Answer"
    index: str


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, in small letters and without punctuation; also whatever could not be read."""

    text: str


Answer = (
    Quantity
    | BasedNumeral
    | TimeOfDay
    | Ratio
    | Bracketed
    | FiniteSet
    | AnswerList
    | SetExpression
    | NamedSet
    | Relation
    | Family
    | Words
)


def parts_of(answer: Answer) -> "tuple[Answer, ...]":
    """The answers that an answer consists of."""
    match answer:
        case Bracketed(parts) | FiniteSet(parts) | AnswerList(parts) | SetExpression(_, parts) | Relation(parts):
            return parts
        case _:
            return ()


def entries_of(answer: Answer, opening: str) -> tuple[Node, ...]:
    """The entries of brackets that open like this, if all are values without units; else none."""
    items = answer.items if isinstance(answer, Bracketed) and answer.opening == opening else ()
    entries = tuple(item.value for item in items if isinstance(item, Quantity) and item.unit is None)
    return entries if len(entries) == len(items) else ()


def variable_name(answer: Answer) -> str | None:
    """The name of an answer that is one variable."""
    return answer.value.name if isinstance(answer, Quantity) and isinstance(answer.value, Symbol) else None


_DESCRIPTIONS: dict[type, str] = {
    BasedNumeral: "a numeral in a base",
    TimeOfDay: "a time of day",
    Ratio: "a ratio",
    Bracketed: "a tuple or interval",
    FiniteSet: "a set",
    AnswerList: "a list",
    SetExpression: "a set",
    NamedSet: "a set",
    Family: "general solutions",
    Words: "words, or a formula that is not read",
}


def description(answer: Answer) -> str:
    """The type of an answer in words."""
    if isinstance(answer, Relation):
        return "an equation" if set(answer.operators) <= {"=", "equiv"} else "a relation"
    if isinstance(answer, Quantity):
        if answer.unit is not None:
            return "a value with a unit"
        return "an expression" if symbols(answer.value) else "a value"
    return _DESCRIPTIONS[type(answer)]
