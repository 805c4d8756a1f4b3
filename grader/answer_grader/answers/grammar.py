"""From the text in the box to a typed answer."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from answer_grader.answers.canonical_form import is_variable_or_point, items_of, names_value
from answer_grader.answers.notations import parse_based_numeral, parse_date, parse_time_of_day
from answer_grader.answers.quantities import parse_quantity, sum_of_parts
from answer_grader.answers.types import (
    Answer,
    AnswerList,
    Bracketed,
    Family,
    FiniteSet,
    Joiner,
    NamedSet,
    Quantity,
    Ratio,
    Relation,
    SetExpression,
    SetOperator,
    Words,
)
from answer_grader.answers.vectors import parse_combination, parse_transposed
from answer_grader.answers.words import is_hedge, is_hedged_clause, is_negation, parse_words, unparsed
from answer_grader.bounds import TooComplex
from answer_grader.expressions.equality import equal, exact_value
from answer_grader.expressions.grammar import NotAnExpression, Parser
from answer_grader.expressions.nodes import Matrix, symbols
from answer_grader.expressions.normalization import normalize
from answer_grader.expressions.tokens import (
    FUNCTIONS,
    Token,
    TokenKind,
    closing_index,
    is_mathematics,
    split_tokens,
    strip_punctuation,
    text_of,
    tokenize,
)

_RELATIONS = ("le", "ge", "ne", "approx", "in", "equiv", "notin")


@lru_cache(maxsize=512)
def parse_answer(text: str, *, grouping: bool = True) -> Answer:
    """The answer that `text` states. What cannot be read is `Words` of its text.

    `grouping` says how `1,234` is meant: as one number, or as two.
    """
    normalized = normalize(text)
    try:
        return _parse_list(strip_punctuation(tokenize(normalized, grouping=grouping)))
    except (NotAnExpression, TooComplex):
        return unparsed(normalized)


def _parse_list(tokens: list[Token]) -> Answer:
    tokens = _without_introduction(strip_punctuation(tokens))
    if not tokens:
        raise NotAnExpression("nothing stands here")
    if _is_phrase(tokens):
        whole = parse_words(text_of(tokens))
        if not isinstance(whole, Words):
            return whole
    if family := _parse_family(tokens):
        return family
    text = text_of(tokens)
    moment = parse_time_of_day(text) or parse_date(text)
    if moment is not None:
        return moment
    parts, separators = split_tokens(tokens, _joiner)
    parts = [part for part in map(strip_punctuation, parts) if part]
    if not separators or len(parts) < 2:
        return _parse_relation(parts[0] if parts else tokens)
    joiners = set(map(_joiner, separators))
    joiner = next(each for each in (Joiner.OR, Joiner.AND, Joiner.COMMA) if each in joiners)
    items = tuple(_parse_relation(part) for part in parts)
    duration = sum_of_parts(items) if joiner is not Joiner.OR else None
    return duration or AnswerList(items, joiner)


_INTEGER = re.compile(
    r"[,;]? ?\(? ?(?:(?:where|for|with|all|any|some|every|each|\\forall) ?)*"
    r"(?:integers? ([A-Za-z])|([A-Za-z]) ?(?:\\in ?(?:\\mathbb ?)?\{?Z\}?|(?:is )?(?:an |any |arbitrary )*integer)) ?\)?"
)
_LONGEST_CONDITION = 14


def _parse_family(tokens: list[Token]) -> Family | None:
    r"""Values with an integer in them: `k\pi, k \in \mathbb{Z}`, `k\pi\ (k \in \mathbb{Z})`, `k\pi \text{ for integer } k`."""
    if not any(token.text in ("Z", "integer", "integers") for token in tokens[-4:]):
        return None
    for start in range(max(1, len(tokens) - _LONGEST_CONDITION), len(tokens)):
        if condition := _INTEGER.fullmatch(text_of(tokens[start:])):
            index, values = condition[1] or condition[2], _parse_list(tokens[:start])
            items = items_of(values, AnswerList)
            sides = [item.sides[-1] if isinstance(item, Relation) else item for item in items]
            if any(isinstance(side, Quantity) and index in symbols(side.value) for side in sides):
                return Family(values, index)
    return None


def _without_introduction(tokens: list[Token]) -> list[Token]:
    """Drops `The answer is`, `So`, and the like."""
    words = [token.text.lower() if token.is_wordlike else "" for token in tokens]
    for introduction in _INTRODUCTIONS:
        if words[: len(introduction)] == introduction and len(words) > len(introduction):
            return strip_punctuation(tokens[len(introduction) :])
    return _without_sentence(tokens)


def _without_sentence(tokens: list[Token]) -> list[Token]:
    r"""Drops `\text{The minimum is }` before a value, and reads `n \text{ is }` as `n =`; other sentences stay."""
    named = bool(tokens) and tokens[0].kind is TokenKind.LETTERS and len(tokens[0].text) == 1
    count = next((n for n, token in enumerate(tokens) if token.kind is not TokenKind.WORD and n >= named), len(tokens))
    words = [token.text.lower() for token in tokens[:count]]
    if words and words[-1] in ("exactly", "precisely", "just"):
        words.pop()
    if len(words) < 2 or count == len(tokens) or words[-1] not in _VERBS or is_hedged_clause(words):
        return tokens
    value = strip_punctuation(tokens[count:])
    return [tokens[0], Token(TokenKind.SIGN, "="), *value] if named else value


_VERBS = ("is", "are", "equals", "be")


_INTRODUCTIONS = [
    *(["the", *kind, "answer", "is"] for kind in (["final"], ["correct"], [])),
    *(["final", "answer"], ["answer", "is"], ["answer"], ["so"], ["thus"]),
]


def _is_phrase(tokens: list[Token]) -> bool:
    """Whether nothing but words and punctuation stands here, at least one of them no variable."""
    if not all(token.is_wordlike or token.is_sign(".", ",", "!", "?", "-", "'", "(", ")") for token in tokens):
        return False
    return any(_is_word(token) for token in tokens)


def _is_word(token: Token) -> bool:
    if token.kind is TokenKind.WORD:
        return len(token.text) > 1 and token.text not in FUNCTIONS
    return token.kind is TokenKind.LETTERS and not is_mathematics(token.text)


def _joiner(token: Token) -> Joiner | None:
    """How a token joins the answers beside it; None for any other token."""
    word = token.text.lower() if token.is_wordlike else ""
    if token.is_command("lor", "vee") or word == "or":
        return Joiner.OR
    if token.is_command("land", "wedge") or word == "and":
        return Joiner.AND
    return Joiner.COMMA if token.is_sign(",", ";") or token.is_command("\\") else None


def _parse_relation(tokens: list[Token]) -> Answer:
    tokens = _without_sentence(tokens)
    parts, separators = split_tokens(
        tokens, lambda token: token.is_sign("=", "<", ">") or token.is_command(*_RELATIONS)
    )
    if not separators:
        return _parse_side(tokens)
    if len(parts[0]) > 1 and is_negation(parts[0][0].text) and not any(map(_is_word, parts[0][1:])):
        return unparsed(text_of(tokens))
    operators = tuple(separator.text for separator in separators)
    if not parts[0] and operators == ("approx",):
        inner = _parse_side(parts[1])
        return replace(inner, approximate=True) if isinstance(inner, Quantity) else inner
    if not parts[0] and operators == ("=",):
        return _parse_side(parts[1])
    sides = tuple(_parse_side(strip_punctuation(part)) for part in parts)
    source = tuple(text_of(part).replace(" ", "") for part in parts)
    if set(operators) == {"="} and _is_named_last(sides, source, parts[-1]):
        sides, source = sides[::-1], source[::-1]
    return Relation(sides, operators, source)


def _is_named_last(sides: Sequence[Answer], source: Sequence[str], last: list[Token]) -> bool:
    """Whether the name of the value is on the right: `24 = n`, `(1,2) = (x,y)`, `5 = f(2)`."""
    if is_variable_or_point(sides[-1]):
        return not is_variable_or_point(sides[0])
    if not names_value(source[-1]) or names_value(source[0]):
        return False
    computed = isinstance(sides[-1], Quantity) and exact_value(sides[-1].value) is not None
    return not computed and not any(token.is_wordlike and is_hedge(token.text) for token in last)


def _parse_side(tokens: list[Token]) -> Answer:
    """One side of a relation, or one item of a list."""
    tokens = strip_punctuation(tokens)
    if not tokens:
        raise NotAnExpression("nothing stands here")
    for operator in (SetOperator.DIFFERENCE, SetOperator.UNION, SetOperator.INTERSECTION):
        parts, separators = split_tokens(tokens, _command_named(operator.value))
        if separators:
            return SetExpression(operator, tuple(_parse_side(part) for part in parts))
    parts, separators = split_tokens(tokens, lambda token: token.is_wordlike and token.text.lower() == "except")
    if len(separators) == 1:
        points = FiniteSet(items_of(_parse_list(parts[1]), AnswerList, FiniteSet))
        return SetExpression(SetOperator.DIFFERENCE, (_parse_side(parts[0]), points))
    enclosed = len(tokens) > 1 and closing_index(tokens) == len(tokens) - 1
    flat, text = _flat(tokens), text_of(tokens)
    return (
        _named_set(tokens)
        or (_parse_bracketed(tokens) if enclosed else None)
        or _value_with_aside(tokens)
        or parse_transposed(tokens, _parse_bracketed)
        or _parse_combination(tokens)
        or parse_based_numeral(flat)
        or parse_time_of_day(flat)
        or _parse_ratio(tokens)
        or parse_quantity(tokens)
        or (parse_words(text) if _is_phrase(tokens) else unparsed(text))
    )


def _value_with_aside(tokens: list[Token]) -> Quantity | None:
    r"""42 of `42\ (=6\cdot 7)`: a value, and in brackets the same value again."""
    opening = next(
        (at for at, token in enumerate(tokens[:-1]) if token.is_sign("(") and tokens[at + 1].is_sign("=")), 0
    )
    if not opening or closing_index(tokens[opening:]) != len(tokens) - opening - 1:
        return None
    value, repeated = _parse_side(tokens[:opening]), _parse_list(tokens[opening + 2 : -1])
    if not isinstance(value, Quantity) or not isinstance(repeated, Quantity) or value.unit != repeated.unit:
        return None
    return value if equal(value.value, repeated.value) else None


def _command_named(name: str) -> Callable[[Token], bool]:
    return lambda token: token.is_command(name)


def _flat(tokens: list[Token]) -> str:
    return text_of([token for token in tokens if not token.is_sign("{", "}")]).replace("_ ", "_")


_HALF_LINES = {"^+": r"(0,\infty)", "^-": r"(-\infty,0)", "_+": r"(0,\infty)", "_>0": r"(0,\infty)"}
_HALF_LINES |= {"_<0": r"(-\infty,0)", "_ge0": r"[0,\infty)", "_le0": r"(-\infty,0]"}


def _named_set(tokens: list[Token]) -> Answer | None:
    text = text_of(tokens).replace(" ", "")
    if text in ("\\emptyset", "\\{\\}"):
        return NamedSet("empty")
    if tokens[0].is_command("mathbb") and len(tokens) >= 4 and tokens[2].text in ("R", "Z", "N", "Q", "C"):
        name, rest = tokens[2].text, tokens[4:]
        if not rest:
            return NamedSet(name)
        half = "".join(token.text for token in rest if not token.is_sign("{", "}"))
        if name == "R" and half in _HALF_LINES:
            return parse_answer(_HALF_LINES[half])
        if rest[0].is_sign("-") and len(rest) > 1:
            return SetExpression(SetOperator.DIFFERENCE, (NamedSet(name), _parse_side(rest[1:])))
        return NamedSet(text)
    return None


def _parse_bracketed(tokens: list[Token]) -> Answer | None:
    opening, closing, inner = tokens[0], tokens[-1], strip_punctuation(tokens[1:-1])
    if opening.is_sign("\\{"):
        builder, bars = split_tokens(inner, lambda token: token.is_sign("|", ":"))
        if len(bars) == 1 and builder[0] and builder[1]:
            return _set_builder(builder[0], builder[1])
        return FiniteSet(tuple(_parse_relation(part) for part in _comma_parts(inner)))
    if not (opening.is_sign("(", "[") or opening.is_command("langle")):
        return None
    parts = _comma_parts(inner)
    if len(parts) >= 2:
        return Bracketed(tuple(_parse_relation(part) for part in parts), opening.text, closing.text)
    if not parts or opening.is_command("langle"):
        return None
    content = _parse_list(inner)
    if isinstance(content, Quantity):
        if opening.is_sign("[") and not symbols(content.value) and not isinstance(content.value, Matrix):
            return unparsed(text_of(tokens))  # `[42]` can be a list, an interval or a rounded number
        return None  # other brackets around a value belong to its expression and are read there
    return content


def _parse_combination(tokens: list[Token]) -> Answer | None:
    if not any(token.is_sign(",") for token in tokens):
        return None
    try:
        return parse_combination(tokens, _parse_bracketed)
    except NotAnExpression:
        return None


def _comma_parts(inner: list[Token]) -> list[list[Token]]:
    parts, _ = split_tokens(inner, lambda token: token.is_sign(",", ";"))
    return [part for part in map(strip_punctuation, parts) if part]


def _set_builder(variable: list[Token], condition: list[Token]) -> Answer:
    r"""The condition of `\{x \mid x > 2\}`, met with the set that the variable is taken from."""
    head = _parse_relation(variable)
    if isinstance(head, Quantity | Bracketed) and not is_variable_or_point(head):
        family = _parse_family([*variable, Token(TokenKind.SIGN, ","), *condition])
        if family is None:
            raise NotAnExpression("a set of the values of a formula")
        return family
    content = _parse_list(condition)
    if isinstance(head, Relation) and head.operators == ("in",) and head.sides[1] != NamedSet("R"):
        return SetExpression(SetOperator.INTERSECTION, (head.sides[1], content))
    return content


def _parse_ratio(tokens: list[Token]) -> Answer | None:
    parts, separators = split_tokens(
        tokens, lambda token: token.is_sign(":") or (token.kind is TokenKind.WORD and token.text == "to")
    )
    if not separators or not all(parts):
        return None
    nodes = []
    for part in parts:
        parser = Parser(part)
        node = parser.expression()
        if parser.rest:
            return None
        nodes.append(node)
    return Ratio(tuple(nodes))
