"""Matrices with their arithmetic carried out, so that they can be compared entry by entry."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from answer_grader.bounds import TooComplex
from answer_grader.expressions.nodes import (
    Matrix,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    contains,
)

_LARGEST = 100
_TRANSPOSES = (Symbol("T"), Symbol("t"), Symbol("\\top"))


def as_matrix(node: Node) -> Matrix | None:
    """The matrix that an expression of matrices and scalars is; None if it is a scalar or has no meaning."""
    if isinstance(node, Matrix):
        return node
    if not contains(node, Matrix):
        return None
    match node:
        case Negative(operand):
            return _mapped(as_matrix(operand), Negative)
        case Quotient(numerator, denominator) if not contains(denominator, Matrix):
            return _mapped(as_matrix(numerator), lambda entry: Quotient(entry, denominator))
        case Sum(terms):
            return _sum([as_matrix(term) for term in terms])
        case Product(factors):
            return _product(factors)
        case Power(base, exponent) if exponent in _TRANSPOSES:
            matrix = as_matrix(base)
            return None if matrix is None else Matrix(tuple(zip(*matrix.rows, strict=True)))
        case Power(base, Number(value)) if value in (2, 3, 4):
            return _product((base,) * int(value))
        case _:
            return None


def _mapped(matrix: Matrix | None, change: Callable[[Node], Node]) -> Matrix | None:
    return None if matrix is None else Matrix(tuple(tuple(map(change, row)) for row in matrix.rows))


def _sum(terms: Sequence[Matrix | None]) -> Matrix | None:
    matrices = [term for term in terms if term is not None]
    if len(matrices) != len(terms) or len({(len(m.rows), len(m.rows[0])) for m in matrices}) != 1:
        return None
    rows = zip(*(matrix.rows for matrix in matrices), strict=True)
    return Matrix(tuple(tuple(Sum(entries) for entries in zip(*row, strict=True)) for row in rows))


def _product(factors: Sequence[Node]) -> Matrix | None:
    scalar: Node = Number(Fraction(1))
    result: Matrix | None = None
    for factor in factors:
        matrix = as_matrix(factor)
        if matrix is None:
            scalar = Product((scalar, factor))
        elif result is None:
            result = matrix
        else:
            result = _times(result, matrix)
            if result is None:
                return None
    return _mapped(result, lambda entry: Product((scalar, entry)))


def _times(left: Matrix, right: Matrix) -> Matrix | None:
    if len(left.rows[0]) != len(right.rows):
        return None
    if len(left.rows) * len(right.rows) * len(right.rows[0]) > _LARGEST:
        raise TooComplex("a product of large matrices")
    columns = list(zip(*right.rows, strict=True))
    return Matrix(
        tuple(
            tuple(Sum(tuple(Product(pair) for pair in zip(row, column, strict=True))) for column in columns)
            for row in left.rows
        )
    )
