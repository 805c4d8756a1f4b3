r"""Plus-minus signs: `1 \pm \sqrt{2}` is two values."""

from collections.abc import Iterator
from itertools import product

from answer_grader.bounds import MAX_SIGNS, TooComplex
from answer_grader.expressions.nodes import Negative, Node, PlusMinus, children, with_children


def expand_plus_minus(node: Node) -> list[Node]:
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
    if isinstance(node, PlusMinus):
        positive = next(choice)
        inner = _choose(node.operand, choice)
        return inner if positive else Negative(inner)
    return with_children(node, lambda child: _choose(child, choice))
