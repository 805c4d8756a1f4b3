"""The form of an expression, where the problem asks for one: factored or expanded."""

from math import gcd, prod

from answer_grader.expressions.nodes import (
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    children,
    symbols,
)


def factor_count(node: Node) -> int:
    """How many factors with variables a product has, powers counted as often as they say."""
    match node:
        case Negative(operand):
            return factor_count(operand)
        case Product(factors):
            return sum(map(factor_count, factors))
        case Power(base, Number(value)) if value.denominator == 1 and value > 0:
            return int(value) * factor_count(base)
        case Quotient(numerator, denominator) if not symbols(denominator):
            return factor_count(numerator)
        case _:
            return 1 if symbols(node) else 0


def has_common_divisor(node: Node) -> bool:
    """Whether an integer greater than 1 can be taken out of a sum with variables."""
    if isinstance(node, Sum) and symbols(node):
        coefficients = [_integer_coefficient(term) for term in node.terms]
        return None not in coefficients and gcd(*filter(None, coefficients)) > 1
    return any(map(has_common_divisor, children(node)))


def _integer_coefficient(term: Node) -> int | None:
    match term:
        case Number(value):
            return int(value) if value.denominator == 1 else None
        case Negative(operand):
            return _integer_coefficient(operand)
        case Product(factors):
            coefficients = [_integer_coefficient(factor) for factor in factors]
            return None if None in coefficients else prod(filter(None, coefficients))
        case Symbol() | Power(Symbol(), Number()):
            return 1
        case _:
            return None


def is_expanded(node: Node) -> bool:
    """Whether no product or power of a sum with variables is left."""
    factors: tuple[Node, ...] = ()
    if isinstance(node, Product):
        factors = node.factors if len(node.factors) > 1 else ()
    elif isinstance(node, Power) and isinstance(node.exponent, Number):
        factors = (node.base,)
    if any(isinstance(factor, Sum) and symbols(factor) for factor in factors):
        return False
    return all(map(is_expanded, children(node)))
