r"""Vectors that are written as sums: `3\mathbf{i} - 2\mathbf{j}`, `\pm(1,2)`, `(1,0,2) + t(1,1,3)`, `(1,2)^T`."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

from answer_grader.answers.types import Answer, AnswerList, Bracketed, Quantity, entries_of
from answer_grader.expressions.grammar import NotAnExpression, Parser
from answer_grader.expressions.matrices import as_matrix
from answer_grader.expressions.nodes import (
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Product,
    Sum,
    Symbol,
    contains,
    expand_plus_minus,
    symbols,
    with_children,
)
from answer_grader.expressions.tokens import Token, TokenKind, closing_index, split_tokens

_ACCENTED = {f"\\{accent}({letter})": n for accent in ("hat", "vec", "bar") for n, letter in enumerate("ijk")}
_BASIS: dict[Node, int] = {Constant("i"): 0, Symbol("j"): 1, Symbol("k"): 2}
_BASIS |= {Symbol(name): index for name, index in _ACCENTED.items()}

ParseBracketed = Callable[[list[Token]], Answer | None]


def basis_entries(node: Node) -> tuple[Node, ...] | None:
    """The three entries of a linear combination of i, j and k; None for anything else."""
    column = None if contains(node, Matrix) else as_matrix(_with_columns(node))
    return None if column is None or len(column.rows) != 3 else tuple(entry for (entry,) in column.rows)


def _with_columns(node: Node) -> Node:
    """The expression with i, j and k as columns."""
    if node in _BASIS:
        return Matrix(tuple((Number(Fraction(_BASIS[node] == index)),) for index in range(3)))
    return with_children(node, _with_columns)


def as_vector(answer: Answer, other: Answer) -> Answer:
    """A combination of i, j and k as a vector of as many entries as the other side has; else the answer itself.

    Plain letters are the basis beside a vector only: elsewhere `3 + 2i` is a complex number.
    """
    if not isinstance(answer, Quantity) or answer.unit is not None:
        return answer
    size = _size(other)
    names = symbols(answer.value)
    if size is None and not (isinstance(other, Quantity) and (names | symbols(other.value)) & _ACCENTED.keys()):
        return answer
    entries = basis_entries(answer.value)
    if entries is None or (size == 2 and any(name == "k" or _ACCENTED.get(name) == 2 for name in names)):
        return answer
    return Bracketed(tuple(map(Quantity, entries[: size or 3])), "langle", "rangle")


def _size(answer: Answer) -> int | None:
    """How many entries a vector has, in brackets or as a column."""
    size = None
    if isinstance(answer, Bracketed) and answer.opening in ("(", "langle"):
        size = len(answer.items)
    elif isinstance(answer, Quantity) and isinstance(answer.value, Matrix) and len(answer.value.rows[0]) == 1:
        size = len(answer.value.rows)
    return size if size in (2, 3) else None


def parse_transposed(tokens: list[Token], parse_bracketed: ParseBracketed) -> Answer | None:
    r"""`(1,2)^T` and `[1,2]^\top` as a column."""
    closing = closing_index(tokens) if tokens[0].is_sign("(", "[") else None
    if closing is None or closing < 4:
        return None
    exponent = [token for token in tokens[closing + 1 :] if not token.is_sign("{", "}")]
    if len(exponent) != 2 or not exponent[0].is_sign("^") or exponent[1].text not in ("T", "t", "top", "intercal"):
        return None
    group = parse_bracketed(tokens[: closing + 1])
    entries = _entries(group) if isinstance(group, Bracketed) else ()
    return Quantity(Matrix(tuple((entry,) for entry in entries))) if entries else None


def parse_combination(tokens: list[Token], parse_bracketed: ParseBracketed) -> Answer | None:
    r"""`\pm(1,2)`, `\frac{1}{3}\langle 1,2,2\rangle`, `(1,0,2) + t(1,1,3)`: one vector, or one for each sign.

    A letter may stand before the brackets in a sum only: `P(1,2)` is a point, `f(1,2)` a value.
    """
    parts, signs = split_tokens(tokens, lambda token: token.is_sign("+", "-"))
    negative = [sign.is_sign("-") for sign in signs]
    if parts and not parts[0]:
        parts = parts[1:]
    else:
        negative = [False, *negative]
    if not parts or not all(parts) or (len(parts) == 1 and not negative[0] and _may_open(parts[0])):
        return None  # brackets alone have been read already, and are not read once more at every depth
    scaled = [term for part in parts if (term := _scaled_vector(part, parse_bracketed, letters=len(parts) > 1))]
    if len(scaled) < len(parts):
        return None
    if sum(contains(factor, PlusMinus) for factor, _ in scaled) > 1:
        raise NotAnExpression("several plus-minus signs before vectors")
    vectors = []
    for factors in product(*(expand_plus_minus(factor) for factor, _ in scaled)):  # one sign for all entries
        terms = [
            Product((factor, Matrix((_entries(group),)))) for factor, (_, group) in zip(factors, scaled, strict=True)
        ]
        total = as_matrix(Sum(tuple(Negative(t) if minus else t for t, minus in zip(terms, negative, strict=True))))
        if total is None:
            return None
        vectors.append(replace(scaled[0][1], items=tuple(map(Quantity, total.rows[0]))))
    return vectors[0] if len(vectors) == 1 else AnswerList(tuple(vectors))


def _scaled_vector(
    tokens: list[Token], parse_bracketed: ParseBracketed, *, letters: bool
) -> tuple[Node, Bracketed] | None:
    """The scalar before a vector in brackets, and the vector, whose entries are plain expressions."""
    opening = next((n for n, token in enumerate(tokens) if _may_open(tokens[n:])), None)
    group = None if opening is None else parse_bracketed(tokens[opening:])
    if not isinstance(group, Bracketed) or group.closing not in (")", "rangle") or not _entries(group):
        return None
    scalar = [token for token in tokens[:opening] if not token.is_command("cdot")]
    if not scalar:
        return Number(Fraction(1)), group
    parameter = letters and len(scalar) == 1 and scalar[0].kind is TokenKind.LETTERS
    if any(token.is_wordlike for token in scalar) and not parameter:
        return None
    if len(scalar) == 1 and scalar[0].is_command("pm", "mp"):
        scalar = [*scalar, Token(TokenKind.NUMBER, "1", Fraction(1))]
    parser = Parser(scalar)
    factor = parser.expression()
    return None if parser.rest else (factor, group)


def _may_open(tokens: list[Token]) -> bool:
    first = tokens[0]
    return (first.is_sign("(") or first.is_command("langle")) and closing_index(tokens) == len(tokens) - 1


def _entries(group: Bracketed) -> tuple[Node, ...]:
    """The entries of brackets of one kind, where all are plain expressions; else none."""
    return entries_of(group, group.opening) if (group.opening == "[") == (group.closing == "]") else ()
