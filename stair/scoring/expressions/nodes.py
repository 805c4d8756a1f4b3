"""The expression tree."""

from dataclasses import dataclass
from fractions import Fraction


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
class Root:
    radicand: "Node"
    index: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `evaluate.FUNCTIONS` applied to its arguments."""

    function: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: "tuple[tuple[Node, ...], ...]"


Node = Number | Constant | Symbol | Sum | Product | Quotient | Negative | PlusMinus | Power | Root | Call | Matrix


def times(left: Node, right: Node) -> Product:
    """The product, as one list of factors."""
    return Product((*(left.factors if isinstance(left, Product) else (left,)), right))


def children(node: Node) -> tuple[Node, ...]:
    """The direct subexpressions, in order."""
    match node:
        case Number() | Constant() | Symbol():
            return ()
        case Sum(terms):
            return terms
        case Product(factors):
            return factors
        case Quotient(numerator, denominator):
            return (numerator, denominator)
        case Negative(operand) | PlusMinus(operand):
            return (operand,)
        case Power(base, exponent):
            return (base, exponent)
        case Root(radicand, index):
            return (radicand, index)
        case Call(_, arguments):
            return arguments
        case Matrix(rows):
            return tuple(entry for row in rows for entry in row)


def symbols(node: Node) -> frozenset[str]:
    """The names of all variables."""
    if isinstance(node, Symbol):
        return frozenset({node.name})
    return frozenset().union(*map(symbols, children(node)))


def contains(node: Node, wanted: type[Node] | Node) -> bool:
    """Whether a node of a type, or a given node, occurs in the tree."""
    found = isinstance(node, wanted) if isinstance(wanted, type) else node == wanted
    return found or any(contains(child, wanted) for child in children(node))
