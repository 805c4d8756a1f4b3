r"""Vectors that are written as sums: `3\mathbf{i} - 2\mathbf{j}`, `\pm(1,2)`, `(1,0,2) + t(1,1,3)`, `(1,2)^T`."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from answer_grader.answers.token_lists import closing_index, split_tokens
from answer_grader.answers.types import Answer, AnswerList, Bracketed, Quantity
from answer_grader.expressions.grammar import NotAnExpression, Parser
from answer_grader.expressions.nodes import (
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    Product,
    Quotient,
    Sum,
    Symbol,
    children,
    expand_plus_minus,
    replaced,
)
from answer_grader.expressions.tokens import Token, TokenKind

_ZERO = Number(Fraction(0))
_ONE = Number(Fraction(1))
_BASIS: dict[Node, int] = {
    Constant("i"): 0,
    Symbol("j"): 1,
    Symbol("k"): 2,
    **{Symbol(f"\\{accent}({letter})"): n for accent in ("hat", "vec", "bar") for n, letter in enumerate("ijk")},
}
_PLAIN = (Constant("i"), Symbol("j"), Symbol("k"))

ParseBracketed = Callable[[list[Token]], Answer | None]


def basis_entries(node: Node) -> tuple[Node, ...] | None:
    """The three entries of a linear combination of i, j and k; None for anything else."""
    if node in _BASIS:
        return tuple(_ONE if _BASIS[node] == index else _ZERO for index in range(3))
    match node:
        case Negative(operand):
            return _mapped(basis_entries(operand), Negative)
        case Quotient(numerator, denominator) if not _has_basis(denominator):
            return _mapped(basis_entries(numerator), lambda entry: Quotient(entry, denominator))
        case Product(factors):
            with_basis = [factor for factor in factors if _has_basis(factor)]
            if len(with_basis) != 1:
                return None
            scalars = tuple(factor for factor in factors if factor is not with_basis[0])
            return _mapped(basis_entries(with_basis[0]), lambda entry: Product((*scalars, entry)))
        case Sum(terms):
            parts = [entries for term in terms if (entries := basis_entries(term)) is not None]
            if len(parts) != len(terms):
                return None
            return tuple(map(Sum, zip(*parts, strict=True)))
        case _:
            return None


def as_vector(answer: Answer, other: Answer) -> Answer:
    """A combination of i, j and k as a vector of as many entries as the other side has; else the answer itself.

    Plain letters are the basis beside a vector only: elsewhere `3 + 2i` is a complex number.
    """
    if not isinstance(answer, Quantity) or answer.unit is not None:
        return answer
    size = _size(other)
    if size is None and (
        not isinstance(other, Quantity) or (not _in_fonts(answer.value) and not _in_fonts(other.value))
    ):
        return answer
    entries = basis_entries(answer.value)
    if entries is None:
        return answer
    if size == 2 and _mentions_third(answer.value):
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


def _in_fonts(node: Node) -> bool:
    return (node in _BASIS and node not in _PLAIN) or any(map(_in_fonts, children(node)))


def _mentions_third(node: Node) -> bool:
    return _BASIS.get(node) == 2 or any(map(_mentions_third, children(node)))


def _has_basis(node: Node) -> bool:
    return node in _BASIS or any(map(_has_basis, children(node)))


def _mapped(entries: tuple[Node, ...] | None, change: Callable[[Node], Node]) -> tuple[Node, ...] | None:
    return None if entries is None else tuple(map(change, entries))


def parse_transposed(tokens: list[Token], parse_bracketed: ParseBracketed) -> Answer | None:
    r"""`(1,2)^T` and `[1,2]^\top` as a column."""
    closing = closing_index(tokens) if tokens[0].is_sign("(", "[") else None
    if closing is None or closing < 4:
        return None
    exponent = [token for token in tokens[closing + 1 :] if not token.is_sign("{", "}")]
    if len(exponent) != 2 or not exponent[0].is_sign("^") or exponent[1].text not in ("T", "t", "top", "intercal"):
        return None
    group = parse_bracketed(tokens[: closing + 1])
    entries = _entries(group) if isinstance(group, Bracketed) else None
    return None if entries is None else Quantity(Matrix(tuple((entry,) for entry in entries)))


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
    scaled: list[tuple[Node, tuple[Node, ...], Bracketed]] = []
    for part in parts:
        term = _scaled_vector(part, parse_bracketed, letters=len(parts) > 1)
        if term is None or (scaled and len(term[1]) != len(scaled[0][1])):
            return None
        scaled.append(term)
    total = []
    for index in range(len(scaled[0][1])):
        terms = [Product((factor, entries[index])) for factor, entries, _ in scaled]
        total.append(Sum(tuple(Negative(t) if minus else t for t, minus in zip(terms, negative, strict=True))))
    # All entries take the same sign, so each sign is chosen once for the vector as a whole.
    vectors = [
        Bracketed(tuple(Quantity(entry) for entry in matrix.rows[0]), scaled[0][2].opening, scaled[0][2].closing)
        for matrix in _with_one_sign(total, [factor for factor, _, _ in scaled])
    ]
    return vectors[0] if len(vectors) == 1 else AnswerList(tuple(vectors))


def _with_one_sign(total: Sequence[Node], factors: Sequence[Node]) -> list[Matrix]:
    signed = [factor for factor in factors if len(expand_plus_minus(factor)) > 1]
    if not signed:
        return [Matrix((tuple(total),))]
    if len(signed) > 1:
        raise NotAnExpression("several plus-minus signs before vectors")
    return [
        Matrix((tuple(replaced(entry, signed[0], value) for entry in total),)) for value in expand_plus_minus(signed[0])
    ]


def _scaled_vector(
    tokens: list[Token], parse_bracketed: ParseBracketed, *, letters: bool
) -> tuple[Node, tuple[Node, ...], Bracketed] | None:
    """The scalar before a vector in brackets, and the vector's entries."""
    opening = next((n for n, token in enumerate(tokens) if _may_open(tokens[n:])), None)
    if opening is None:
        return None
    group = parse_bracketed(tokens[opening:])
    entries = _entries(group) if isinstance(group, Bracketed) else None
    if entries is None or not isinstance(group, Bracketed) or group.closing not in (")", "rangle"):
        return None
    scalar = [token for token in tokens[:opening] if not token.is_command("cdot")]
    if not scalar:
        return _ONE, entries, group
    parameter = letters and len(scalar) == 1 and scalar[0].kind is TokenKind.LETTERS
    if any(token.is_wordlike for token in scalar) and not parameter:
        return None
    if len(scalar) == 1 and scalar[0].is_command("pm", "mp"):
        scalar = [*scalar, Token(TokenKind.NUMBER, "1", Fraction(1))]
    parser = Parser(scalar)
    factor = parser.expression()
    return None if parser.rest else (factor, entries, group)


def _may_open(tokens: list[Token]) -> bool:
    first = tokens[0]
    return (first.is_sign("(") or first.is_command("langle")) and closing_index(tokens) == len(tokens) - 1


def _entries(group: Bracketed) -> tuple[Node, ...] | None:
    """The entries of brackets of one kind, where all are plain expressions."""
    if (group.opening == "[") != (group.closing == "]"):
        return None
    entries = tuple(item.value for item in group.items if isinstance(item, Quantity) and item.unit is None)
    return entries if len(entries) == len(group.items) else None
