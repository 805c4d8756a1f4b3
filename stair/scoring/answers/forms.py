"""The form of an expression, where the problem asks for one: factored or expanded."""

from stair.scoring.expressions.nodes import Negative, Node, Number, Power, Product, Quotient, Sum, children, symbols


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
