r"""Matrices: `\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}`."""

from stair.grading.expressions.cursor import NotAnExpression
from stair.grading.expressions.grammar import Grammar
from stair.grading.expressions.nodes import Call, Matrix, Node

_MATRICES = ("matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "psmallmatrix", "bsmallmatrix", "array")
_DETERMINANT = "vmatrix"


def read_environment(parser: Grammar) -> Node:
    r"""The matrix or determinant after `\begin`. Raises NotAnExpression for other environments."""
    name = _name(parser)
    if name not in (*_MATRICES, _DETERMINANT):
        raise NotAnExpression(f"{name} is no matrix")
    if name == "array" and parser.next_is_sign("{"):
        parser.position = parser.matching_brace() + 1
    rows: list[tuple[Node, ...]] = []
    row: list[Node] = []
    while not parser.take_command("end"):
        row.append(parser.expression())
        if parser.take_sign("&"):
            continue
        rows.append(tuple(row))
        row = []
        following = parser.peek()
        if not parser.take_command("\\") and not (following and following.is_command("end")):
            raise NotAnExpression("a matrix row ends with something else than \\\\")
        parser.take_command("hline")
    if _name(parser) != name or len({len(each) for each in rows}) != 1:
        raise NotAnExpression("the rows of a matrix differ in length")
    matrix = Matrix(tuple(rows))
    return Call("det", (matrix,)) if name == _DETERMINANT else matrix


def _name(parser: Grammar) -> str:
    parser.expect("{")
    name = parser.advance().text
    parser.expect("}")
    return name
