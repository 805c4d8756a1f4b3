"""Reading values with their units."""

import re
from fractions import Fraction

from answer_grader.answers.types import Answer, Quantity, Unit
from answer_grader.answers.units import CURRENCY_COMMANDS, DEGREE, UNITS, UnitPhrase, parse_unit_phrase
from answer_grader.answers.words import leading_number
from answer_grader.expressions.grammar import NotAnExpression, Parser
from answer_grader.expressions.nodes import Constant, Negative, Node, Number, Product, Sum, Symbol
from answer_grader.expressions.tokens import Token, TokenKind, text_of

_ORDINALS = ("st", "nd", "rd", "th")
_CURRENCY_CODES = ("USD", "EUR", "GBP", "JPY", "INR")
_HEDGES = ("approximately", "about", "around", "roughly")


def parse_quantity(tokens: list[Token]) -> Quantity | None:
    """An expression and its unit, or None where the tokens are something else."""
    arc = _parse_arc(tokens)
    if arc is not None:
        return arc
    approximate = bool(tokens) and tokens[0].is_wordlike and tokens[0].text.lower() in _HEDGES
    tokens = without_ordinal(tokens[approximate:])
    negative = bool(tokens) and tokens[0].is_sign("-") and len(tokens) > 1 and _currency(tokens[1]) is not None
    if negative:
        tokens = tokens[1:]
    currency = _currency(tokens[0]) if tokens else None
    quantity = _parse_measured(tokens[currency is not None :])
    if quantity is None:
        return None
    value, unit = quantity.value, quantity.unit
    if currency is not None:
        if unit is not None and unit != currency:
            return None
        unit = currency
    return Quantity(Negative(value) if negative else value, unit, approximate)


def _parse_arc(tokens: list[Token]) -> Quantity | None:
    r"""Degrees with minutes and seconds of arc: `30^\circ 30'`, `30^\circ 15' 20''`, `30 degrees 15 minutes`."""
    match = _ARC.fullmatch(text_of([token for token in tokens if not token.is_sign("{", "}")]))
    if match is None or (match["minutes"] is None and match["seconds"] is None):
        return None
    degrees = sum((Fraction(match[name] or 0) / parts for name, parts in _ARC_PARTS.items()), Fraction(0))
    return Quantity(Number(-degrees if match["sign"] else degrees), DEGREE)


_ARC_PARTS = {"degrees": 1, "minutes": 60, "seconds": 3600}
_ARC = re.compile(
    r"(?P<sign>- ?)?(?P<degrees>\d{1,9}) ?(?:\^ ?\\circ|degrees?)"
    r"(?: ?(?P<minutes>\d{1,2}(?:\.\d{1,9})?) ?(?:'|\^ ?\\prime|(?:arc)?minutes?)(?!'))?"
    r"(?: ?(?P<seconds>\d{1,2}(?:\.\d{1,9})?) ?(?:''|\"|\^ ?\\prime ?\\prime|(?:arc)?seconds?))?"
)


def sum_of_parts(items: tuple[Answer, ...]) -> Quantity | None:
    """`2 hours 30 minutes`: quantities of one dimension in different units, as one quantity in the first unit."""
    quantities = [item for item in items if isinstance(item, Quantity)]
    units = [item.unit for item in quantities if item.unit is not None and item.unit.dimensions]
    if len(units) != len(items) or len(set(units)) != len(units):
        return None
    if len({unit.dimensions for unit in units}) != 1 or len({unit.noun for unit in units}) != 1:
        return None
    terms = [
        Product((Number(unit.factor / units[0].factor), item.value))
        for item, unit in zip(quantities, units, strict=True)
    ]
    return Quantity(Sum(tuple(terms)), units[0])


def without_ordinal(tokens: list[Token]) -> list[Token]:
    """Drops the ending of an ordinal number: `5th`, `5^{th}`."""
    if not tokens or tokens[0].kind is not TokenKind.NUMBER or not tokens[0].text.isdigit():
        return tokens
    ending = [token for token in tokens[1:5] if not token.is_sign("^", "{", "}")]
    if not ending or not ending[0].is_wordlike or ending[0].text.lower() not in _ORDINALS:
        return tokens
    index = tokens.index(ending[0]) + 1
    if index < len(tokens) and tokens[index].is_sign("}") and any(token.is_sign("{") for token in tokens[:index]):
        index += 1
    return [tokens[0], *tokens[index:]]


def _currency(token: Token) -> Unit | None:
    name = CURRENCY_COMMANDS.get(token.text) if token.kind is TokenKind.COMMAND else None
    if token.is_wordlike and token.text in _CURRENCY_CODES:
        name = token.text.lower()
    return UNITS[name] if name else None


def _parse_measured(tokens: list[Token]) -> Quantity | None:
    read = _leading_value(tokens)
    if read is None:
        return None
    value, rest = read
    for end in range(len(rest), -1, -1):
        phrase = parse_unit_phrase(rest[:end])
        if phrase is None:
            continue
        if end == len(rest):
            return _measured(value, phrase)
        further = (
            _parse_measured(rest[end:]) if rest[end].kind is TokenKind.NUMBER and phrase.unit is not None else None
        )
        if further is not None:
            return sum_of_parts((_measured(value, phrase), further))
    return None


def _leading_value(tokens: list[Token]) -> tuple[Node, list[Token]] | None:
    if [token.kind for token in tokens[:2]] == [TokenKind.WORD, TokenKind.WORD] and tokens[0].text in ("a", "A"):
        return None  # an article
    words = []
    for token in tokens:
        if not token.is_wordlike:
            break
        words.append(token.text)
    number = leading_number(words)
    if number is not None:
        return Number(Fraction(number[0])), tokens[number[1] :]
    parser = Parser(tokens)
    try:
        value = parser.expression()
    except NotAnExpression:
        return None
    return value, parser.rest


def _measured(value: Node, phrase: UnitPhrase) -> Quantity:
    if phrase.multiplier != 1:
        value = Product((value, Number(Fraction(phrase.multiplier))))
    if phrase.unit is None:
        stripped = _without_degree(value)
        if stripped is not None:
            return Quantity(stripped, DEGREE)
        match value:
            case Product((Number() as number, Symbol("\\Omega"))):
                return Quantity(number, UNITS["ohm"])
    return Quantity(value, phrase.unit)


def _without_degree(value: Node) -> Node | None:
    """The number of degrees of `30^\\circ` and `-30^\\circ`, or None."""
    if isinstance(value, Negative):
        inner = _without_degree(value.operand)
        return None if inner is None else Negative(inner)
    if isinstance(value, Product) and value.factors[-1] == Constant("degree") and len(value.factors) == 2:
        return value.factors[0]
    return None
