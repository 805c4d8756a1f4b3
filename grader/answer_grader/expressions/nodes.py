"""The expression tree."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from answer_grader.bounds import MAX_SIGNS, TooComplex


@dataclass(frozen=True, slots=True)
class Number:
    """A rational number, exactly."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Constant:
    """`pi`, `e`, `i`, `infinity`, `degree` (pi / 180) or `percent` (1 / 100)."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable; subscripts and primes belong to its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Sum:
    terms: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Product:
    factors: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Quotient:
    numerator: "Node"
    denominator: "Node"


@dataclass(frozen=True, slots=True)
class Negative:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class PlusMinus:
    r"""Both signs of the operand: `\pm`, or `\mp` if `inverted`."""

    operand: "Node"
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Power:
    base: "Node"
    exponent: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `evaluate.FUNCTIONS` applied to its arguments."""

    function: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: "tuple[tuple[Node, ...], ...]"


@dataclass(frozen=True, slots=True)
class Series:
    r"""`\sum_{k=1}^{n} k^2` or `\prod`: the body over the integers from `first` to `last`.

    The index is a variable of the body alone, named by the depth of its nesting (`#0`), so that the letter which was
    written for it does not matter.
    """

    function: str
    """`sum` or `prod`"""
    index: str
    first: "Node"
    last: "Node"
    body: "Node"


Node = Number | Constant | Symbol | Sum | Product | Quotient | Negative | PlusMinus | Power | Call | Matrix | Series


def times(left: Node, right: Node) -> Product:
    """The product, as one list of factors."""
    return Product((*(left.factors if isinstance(left, Product) else (left,)), right))


def root(radicand: Node, index: Node) -> Power:
    """A root as a power."""
    return Power(radicand, Quotient(Number(Fraction(1)), index))


def children(node: Node) -> tuple[Node, ...]:
    """The direct subexpressions, in order."""
    match node:
        case Number() | Constant() | Symbol():
            return ()
        case Sum(operands) | Product(operands) | Call(_, operands):
            return operands
        case Quotient(left, right) | Power(left, right):
            return (left, right)
        case Negative(operand) | PlusMinus(operand):
            return (operand,)
        case Matrix(rows):
            return tuple(entry for row in rows for entry in row)
        case Series(_, _, first, last, body):
            return (first, last, body)


def with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each direct subexpression changed, in the order of `children`."""
    match node:
        case Number() | Constant() | Symbol():
            return node
        case Sum(operands) | Product(operands):
            return type(node)(tuple(map(change, operands)))
        case Quotient(left, right) | Power(left, right):
            return type(node)(change(left), change(right))
        case Negative(operand):
            return Negative(change(operand))
        case PlusMinus(operand, inverted):
            return PlusMinus(change(operand), inverted)
        case Call(function, operands):
            return Call(function, tuple(map(change, operands)))
        case Matrix(rows):
            return Matrix(tuple(tuple(map(change, row)) for row in rows))
        case Series(function, name, first, last, body):
            return Series(function, name, change(first), change(last), change(body))


def replaced(node: Node, target: Node, replacement: Node) -> Node:
    """The expression with every occurrence of a node replaced."""
    return replacement if node == target else with_children(node, lambda child: replaced(child, target, replacement))


def symbols(node: Node) -> frozenset[str]:
    """The names of all variables, without the indices of series."""
    if isinstance(node, Symbol):
        return frozenset({node.name})
    if isinstance(node, Series):
        return symbols(node.first) | symbols(node.last) | (symbols(node.body) - {node.index})
    return frozenset().union(*map(symbols, children(node)))


def contains(node: Node, target: type[Node] | Node) -> bool:
    """Whether a node of a type, or a given node, occurs in the tree."""
    matches = isinstance(node, target) if isinstance(target, type) else node == target
    return matches or any(contains(child, target) for child in children(node))


def expand_plus_minus(node: Node) -> list[Node]:
    r"""The expression with each choice of its signs; itself alone if it has none.

    Signs are chosen independently, unless there is a `\mp` among them: then all go together.
    """
    signs = _signs(node)
    if not signs:
        return [node]
    if any(sign.inverted for sign in signs):
        choices = [tuple(upper != sign.inverted for sign in signs) for upper in (True, False)]
    elif len(signs) > MAX_SIGNS:
        raise TooComplex("too many plus-minus signs")
    else:
        choices = list(product((True, False), repeat=len(signs)))
    return [_choose(node, iter(choice)) for choice in choices]


def has_minus_plus(node: Node) -> bool:
    r"""Whether it has a `\mp`."""
    return any(sign.inverted for sign in _signs(node))


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
