"""Answers brought to the form in which they are compared, and the names that stand before them (`x =`, `m+n =`)."""

import re
from collections.abc import Sequence
from dataclasses import replace

from answer_grader.answers.real_sets import is_real_set
from answer_grader.answers.types import (
    Answer,
    AnswerList,
    Bracketed,
    Family,
    FiniteSet,
    NamedSet,
    Quantity,
    Relation,
    SetExpression,
    SetOperator,
    entries_of,
    variable_name,
)
from answer_grader.expressions.equality import equal, same_in_some_order
from answer_grader.expressions.nodes import (
    Matrix,
    PlusMinus,
    children,
    contains,
    expand_plus_minus,
    has_minus_plus,
)
from answer_grader.expressions.tokens import GREEK

_MARKS = r"(?:'|_(?:\{(?:[^{}]|\{[^{}]*\})*\}|\w|\\[a-z]+)|\^\{?(?:\*|\\star)\}?)*"
_LETTER = rf"(?:[A-Za-z]|\\(?!frac|sqrt|pm|infty|pi\b)[A-Za-z]+){_MARKS}"
_LETTERS = rf"(?:{_LETTER}|[A-Z]{{2,3}})"
_ACCENTED = rf"\\(?:vec|hat|bar|overline|overrightarrow)\{{?\\?[A-Za-z]+\}}?{_MARKS}"
_OPERATOR = rf"(?:{_LETTER}|\\mathbb\{{[A-Z]\}}|[A-Za-z]{{3,}}{_MARKS})"
_NORM = rf"\|(?:{_LETTER}|{_ACCENTED})(?:(?:[+*-]|\\c[au]p)?(?:{_LETTER}|{_ACCENTED})){{0,4}}\|{_MARKS}"
_EXPONENT = r"\^(?:\d|\{\d+\})"
_FUNCTION = r"\\?(?:sin|cos|tan|cot|sec|csc|log|ln|det|max|min|lim)"
_NAMES = (
    _LETTER,
    rf"{_OPERATOR}(?:\^{{?-1}}?)?(?:\(.*\)|\[.*\])",  # f(2), P(A), f^{-1}(x), \mathbb{E}[X], Area(ABC)
    rf"\\mathbb\{{[A-Z]\}}{_LETTER}|\\(?:lim(?:sup|inf)?|sup|inf|max|min)_.+|\\i+nt.+",
    rf"{_LETTER}(?:[+*-]?{_LETTER}){{1,5}}",  # m+n, a-b, abc, AB
    rf"\\frac\{{{_LETTERS}\}}\{{{_LETTERS}\}}|{_LETTERS}[/:]{_LETTERS}",
    rf"\\frac\{{(?:d|\\partial)(?:{_LETTER})?\}}\{{(?:d|\\partial){_LETTER}\}}(?:\(.*\))?",
    r"[A-Za-z]*\\(?:angle|measuredangle|triangle|widehat|#)\{?[A-Za-z]+\}?",
    _ACCENTED,
    rf"{_FUNCTION}(?:{_EXPONENT})?(?:\(.*\)|\{{?{_LETTER}\}}?|\\angle\{{?[A-Z]+\}}?)",
    rf"{_NORM}|\[(?:\\triangle)?[A-Z]+\]",  # |AB|, [ABC]
    rf"(?:{_NORM}|{_ACCENTED}|[A-Z]{{2,}}|\\(?:{'|'.join(sorted(GREEK))}){_MARKS}){_EXPONENT}{_MARKS}",  # x^2 is unsolved
    r"[A-Za-z][A-Za-z ]+",
)
_NAME = re.compile("|".join(f"(?:{pattern})" for pattern in _NAMES))
_LONGEST = 60


def names_value(source: str) -> bool:
    """Whether a left side only names what it is equal to. `source` is without spaces."""
    return len(source) <= _LONGEST and _NAME.fullmatch(source) is not None


def names_quantity(source: str) -> bool:
    """Whether it names one quantity: as `names_value`, but no sum or product of variables, which makes an equation."""
    outside = re.sub(r"\{[^{}]*\}|\([^()]*\)|\[[^][]*\]|\^\*", "", source)
    return names_value(source) and not re.search(r"[+*-]|^[a-z]{2,}$", outside)


def unified_name(source: str) -> str:
    r"""One spelling of a name: `E(X)` for `\mathbb{E}[X]`."""
    return re.sub(r"\\mathbb|[{}]", "", source).replace("[", "(").replace("]", ")")


def names_variable(source: str) -> bool:
    """Whether it is one letter, or a function of one letter: what a formula is given for."""
    argument = r"(?:\^\{?-1\}?)?(?:\([A-Za-z](?:,[A-Za-z])*\))?"
    return re.fullmatch(rf"{_LETTER}{argument}|{_ACCENTED}", source) is not None


def canonical(answer: Answer) -> Answer:
    r"""Spreads plus-minus signs, drops `x \in` before a set, and gives `x = 1, 2` its name to each value."""
    match answer:
        case Quantity(value) if contains(value, PlusMinus):
            return AnswerList(tuple(replace(answer, value=each) for each in expand_plus_minus(value)))
        case Relation(sides, ("in",)) if is_variable_or_point(sides[0]):
            return canonical(sides[1])
        case Bracketed(items) if rows := _signs_together(items):
            return AnswerList(tuple(replace(answer, items=row) for row in rows))
        case Bracketed(items) if (index := _signed_entry(items)) is not None:
            entries = items_of(canonical(items[index]), AnswerList)
            return AnswerList(
                tuple(replace(answer, items=(*items[:index], entry, *items[index + 1 :])) for entry in entries)
            )
        case Relation((first, FiniteSet() | Family()), ("=",)) if variable_name(first) is not None:
            return canonical(answer.sides[1])
        case SetExpression(SetOperator.UNION, parts) if all(isinstance(part, FiniteSet) for part in parts):
            return canonical(FiniteSet(tuple(item for part in parts for item in items_of(part, FiniteSet))))
        case Relation((Bracketed(names), Bracketed(values)), ("=",)) if len(names) == len(values) and all(
            map(variable_name, names)
        ):
            return canonical(answer.sides[1])
        case Relation(_, operators) if set(operators) == {"="}:
            return _spread_relation(answer)
        case AnswerList(items, joiner) if not is_real_set(answer):
            alike = _named_alike(items)
            rows = _signs_together(alike)
            if rows and are_named(answer):
                return AnswerList(tuple(Bracketed(row, "(", ")") for row in rows))
            if rows and same_in_some_order(rows[0], rows[1], _same_value):
                alike = [_with_value(*pair) for pair in zip(alike, rows[0], strict=True)]
            flat = [part for item in map(canonical, alike) for part in items_of(item, AnswerList)]
            return AnswerList(tuple(flat), joiner)
        case Family(values, index):
            return Family(canonical(values), index)
        case FiniteSet(items):
            flat = [part for item in map(canonical, items) for part in items_of(item, AnswerList)]
            return FiniteSet(tuple(flat)) if flat else NamedSet("empty")
        case _:
            return answer


def items_of(answer: Answer, *kinds: type[AnswerList] | type[FiniteSet]) -> tuple[Answer, ...]:
    """The answers in a list or set; anything else is one answer."""
    return answer.items if isinstance(answer, kinds) else (answer,)


def is_several(answer: Answer) -> bool:
    return isinstance(answer, AnswerList | FiniteSet)


def are_named(answer: Answer) -> bool:
    """Whether all are of the form `x = 1`, with different names."""
    items = items_of(answer, AnswerList)
    names = [item.source[0] for item in items if isinstance(item, Relation) and stated_value(item) is not None]
    return len(names) == len(items) == len(set(names))


def stated_value(relation: Relation) -> Answer | None:
    """5 of `x = 5` and of `x = 10/2 = 5`; None where the left side is no name."""
    if set(relation.operators) - {"=", "equiv"} or not relation.source or not names_value(relation.source[0]):
        return None
    return relation.sides[-1]


def matrix_of(answer: Answer) -> Matrix | None:
    """A matrix, also in the form `[[1, 2], [3, 4]]`, or as a vector in angle brackets."""
    if isinstance(answer, Quantity) and isinstance(answer.value, Matrix):
        return answer.value
    if column := entries_of(answer, "langle"):
        return Matrix(tuple((entry,) for entry in column))
    if not isinstance(answer, Bracketed) or answer.opening != "[":
        return None
    rows = tuple(entries_of(item, "[") for item in answer.items)
    return Matrix(rows) if all(rows) and len(set(map(len, rows))) == 1 else None


def is_variable_or_point(answer: Answer) -> bool:
    """Whether it is `x`, or `(x, y)`."""
    return all(
        variable_name(item) is not None for item in (answer.items if isinstance(answer, Bracketed) else (answer,))
    )


def _signs_together(items: Sequence[Answer]) -> list[tuple[Quantity, ...]]:
    r"""The values of the items with all upper and with all lower signs, if several have signs, `\mp` among them."""
    sides = [item.sides[-1] if isinstance(item, Relation) and stated_value(item) else item for item in items]
    values = tuple(side.value for side in sides if isinstance(side, Quantity) and side.unit is None)
    signed = sum(contains(value, PlusMinus) for value in values)
    if len(values) < len(items) or signed < 2 or not any(map(has_minus_plus, values)):
        return []
    return [tuple(map(Quantity, children(row))) for row in expand_plus_minus(Matrix((values,)))]


def _same_value(one: Quantity, other: Quantity) -> bool:
    return equal(one.value, other.value)


def _with_value(item: Answer, value: Quantity) -> Answer:
    return replace(item, sides=(*item.sides[:-1], value)) if isinstance(item, Relation) else value


def _signed_entry(items: Sequence[Answer]) -> int | None:
    """Which entry of a tuple has a plus-minus sign, if one alone has."""
    signed = [i for i, item in enumerate(items) if isinstance(item, Quantity) and contains(item.value, PlusMinus)]
    return signed[0] if len(signed) == 1 else None


def _spread_relation(relation: Relation) -> Answer:
    last = canonical(relation.sides[-1])
    if not isinstance(last, AnswerList) or len(relation.sides) != 2:
        return relation
    return AnswerList(tuple(replace(relation, sides=(relation.sides[0], item)) for item in last.items))


def _named_alike(items: Sequence[Answer]) -> Sequence[Answer]:
    first = items[0]
    if (
        not isinstance(first, Relation)
        or (stated_value(first) is None and not (first.operators == ("ne",) and variable_name(first.sides[0])))
        or any(isinstance(i, Relation) for i in items[1:])
    ):
        return items
    return [first, *(replace(first, sides=(*first.sides[:-1], item)) for item in items[1:])]
