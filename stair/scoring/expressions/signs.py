r"""Plus-minus signs: `1 \pm \sqrt{2}` is two values."""

from collections.abc import Iterator
from itertools import product

from stair.scoring.bounds import MAX_SIGNS, TooComplex
from stair.scoring.expressions.nodes import (
    Call,
    Matrix,
    Negative,
    Node,
    PlusMinus,
    Power,
    Product,
    Quotient,
    Root,
    Sum,
    children,
)


def sign_values(node: Node) -> list[Node]:
    r"""The expression with each choice of its signs; itself alone if it has none.

    Signs are chosen independently, unless there is a `\mp` among them: then all go together.
    """
    signs = _signs(node)
    if not signs:
        return [node]
    if len(signs) > MAX_SIGNS:
        raise TooComplex("too many plus-minus signs")
    if any(sign.inverted for sign in signs):
        choices = [tuple(upper != sign.inverted for sign in signs) for upper in (True, False)]
    else:
        choices = list(product((True, False), repeat=len(signs)))
    return [_choose(node, iter(choice)) for choice in choices]


def _signs(node: Node) -> list[PlusMinus]:
    own = [node] if isinstance(node, PlusMinus) else []
    return own + [sign for child in children(node) for sign in _signs(child)]


def _choose(node: Node, choice: Iterator[bool]) -> Node:
    """Replaces the signs in the order in which `_signs` lists them."""
    match node:
        case PlusMinus(operand):
            positive = next(choice)
            inner = _choose(operand, choice)
            return inner if positive else Negative(inner)
        case Sum(terms):
            return Sum(tuple(_choose(term, choice) for term in terms))
        case Product(factors):
            return Product(tuple(_choose(factor, choice) for factor in factors))
        case Quotient(numerator, denominator):
            return Quotient(_choose(numerator, choice), _choose(denominator, choice))
        case Negative(operand):
            return Negative(_choose(operand, choice))
        case Power(base, exponent):
            return Power(_choose(base, choice), _choose(exponent, choice))
        case Root(radicand, index):
            return Root(_choose(radicand, choice), _choose(index, choice))
        case Call(function, arguments):
            return Call(function, tuple(_choose(argument, choice) for argument in arguments))
        case Matrix(rows):
            return Matrix(tuple(tuple(_choose(entry, choice) for entry in row) for row in rows))
        case _:
            return node
