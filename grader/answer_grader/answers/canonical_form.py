"""Answers brought to the form in which they are compared, and the names that stand before them (`x =`, `m+n =`)."""

import re
from collections.abc import Sequence
from dataclasses import replace

from answer_grader.answers.real_sets import is_real_set
from answer_grader.answers.types import (
    Answer,
    AnswerList,
    Bracketed,
    FiniteSet,
    NamedSet,
    Quantity,
    Relation,
    SetExpression,
    SetOperator,
    entries_of,
    variable_name,
)
from answer_grader.expressions.nodes import Matrix, PlusMinus, contains, expand_plus_minus

_SUBSCRIPT = r"(?:'|_(?:\{[^{}]*\}|\w|\\[a-z]+))*"
_LETTER = rf"(?:[A-Za-z]|\\(?!frac|sqrt|pm|infty|pi\b)[A-Za-z]+){_SUBSCRIPT}"
_LETTERS = rf"(?:{_LETTER}|[A-Z]{{2,3}})"
_ACCENTED = r"\\(?:vec|hat|bar|overline|overrightarrow)\{?[A-Za-z]+\}?"
_FUNCTION = r"\\?(?:sin|cos|tan|cot|sec|csc|log|ln|det|max|min|lim)"
_NAMES = (
    _LETTER,
    rf"{_LETTER}(?:\^{{?-1}}?)?\(.*\)",  # f(2), P(A), f^{-1}(x)
    rf"{_LETTER}(?:[+*-]?{_LETTER}){{1,5}}",  # m+n, a-b, abc, AB
    rf"\\frac\{{{_LETTERS}\}}\{{{_LETTERS}\}}|{_LETTERS}[/:]{_LETTERS}",
    rf"\\frac\{{(?:d|\\partial)(?:{_LETTER})?\}}\{{(?:d|\\partial){_LETTER}\}}(?:\(.*\))?",
    r"m?\\(?:angle|measuredangle|triangle|widehat)\{?[A-Za-z]+\}?",
    _ACCENTED,
    rf"{_FUNCTION}(?:\(.*\)|\{{?{_LETTER}\}}?|\\angle\{{?[A-Z]+\}}?)",
    r"\|[A-Za-z]+\||\[[A-Z]+\]",  # |AB|, [ABC]
    r"[A-Za-z][A-Za-z ]+",
)
_NAME = re.compile("|".join(f"(?:{pattern})" for pattern in _NAMES))
_LONGEST = 60


def names_value(source: str) -> bool:
    """Whether a left side only names what it is equal to. `source` is without spaces."""
    return len(source) <= _LONGEST and _NAME.fullmatch(source) is not None


def names_quantity(source: str) -> bool:
    """Whether it names one quantity: as `names_value`, but no sum or product of variables, which makes an equation."""
    outside = re.sub(r"\{[^{}]*\}|\([^()]*\)", "", source)
    return names_value(source) and not re.search(r"[+*-]|^[a-z]{2,}$", outside)


def names_variable(source: str) -> bool:
    """Whether it is one letter, or a function of one letter: what a formula is given for."""
    argument = r"(?:\^\{?-1\}?)?(?:\([A-Za-z](?:,[A-Za-z])*\))?"
    return re.fullmatch(rf"{_LETTER}{argument}|{_ACCENTED}", source) is not None


def canonical(answer: Answer) -> Answer:
    r"""Spreads plus-minus signs, drops `x \in` before a set, and gives `x = 1, 2` its name to each value."""
    match answer:
        case Quantity(value) if contains(value, PlusMinus):
            return AnswerList(tuple(replace(answer, value=each) for each in expand_plus_minus(value)))
        case Relation(sides, ("in",)) if _is_variable_or_point(sides[0]):
            return canonical(sides[1])
        case Bracketed(items) if (index := _signed_entry(items)) is not None:
            entries = items_of(canonical(items[index]), AnswerList)
            return AnswerList(
                tuple(replace(answer, items=(*items[:index], entry, *items[index + 1 :])) for entry in entries)
            )
        case Relation((first, FiniteSet()), ("=",)) if variable_name(first) is not None:
            return canonical(answer.sides[1])
        case SetExpression(SetOperator.UNION, parts) if all(isinstance(part, FiniteSet) for part in parts):
            return canonical(FiniteSet(tuple(item for part in parts for item in items_of(part, FiniteSet))))
        case Relation((Bracketed(names), Bracketed(values)), ("=",)) if len(names) == len(values) and all(
            map(variable_name, names)
        ):
            return canonical(answer.sides[1])
        case Relation((first, last), ("=",)) if variable_name(last) is not None and variable_name(first) is None:
            return _spread_relation(Relation((last, first), ("=",), answer.source[::-1]))
        case Relation(_, operators) if set(operators) == {"="}:
            return _spread_relation(answer)
        case AnswerList(items, joiner) if not is_real_set(answer):
            flat = [part for item in map(canonical, _named_alike(items)) for part in items_of(item, AnswerList)]
            return AnswerList(tuple(flat), joiner)
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


def _is_variable_or_point(answer: Answer) -> bool:
    """Whether it is `x`, or `(x, y)`."""
    return all(
        variable_name(item) is not None for item in (answer.items if isinstance(answer, Bracketed) else (answer,))
    )


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
