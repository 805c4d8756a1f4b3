"""The grammar of expressions: the trees of its productions, and where an expression ends."""

from fractions import Fraction

import pytest

from answer_grader.expressions.grammar import NotAnExpression, Parser
from answer_grader.expressions.nodes import (
    Call,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quotient,
    Series,
    Sum,
    Symbol,
)
from answer_grader.expressions.tokens import tokenize

X, Y = Symbol("x"), Symbol("y")
ONE, TWO, THREE = (Number(Fraction(value)) for value in (1, 2, 3))


def parser(text: str) -> Parser:
    return Parser(tokenize(text, grouping=True))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (r"x + 1 - y", Sum((X, ONE, Negative(Y)))),
        (r"x \pm 1", Sum((X, PlusMinus(ONE)))),
        (r"1 \over 2", Quotient(ONE, TWO)),
        ("-2x", Negative(Product((TWO, X)))),
        ("xy", Product((X, Y))),
        ("1/2x", Product((Quotient(ONE, TWO), X))),
        ("x^2!", Call("factorial", (Power(X, TWO),))),
        (r"2^\circ", Product((TWO, Constant("degree")))),
        (r"\frac12", Quotient(ONE, TWO)),
        (r"1\frac{1}{2}", Number(Fraction(3, 2))),
        (r"\sqrt[3]{x}", Power(X, Quotient(ONE, THREE))),
        (r"x'_{12}", Symbol("x'_12")),
        (r"\sin^2 x \cos y", Product((Power(Call("sin", (X,)), TWO), Call("cos", (Y,))))),
        (r"\sin^{-1} x", Call("arcsin", (X,))),
        ("sinx", Call("sin", (X,))),
        (r"\log_2 (x)", Call("log", (X, TWO))),
        ("f(x, y)", Call("f", (X, Y))),
        ("|x|", Call("abs", (X,))),
        (r"\lfloor x \rfloor", Call("floor", (X,))),
        (r"\binom{x}{2}", Call("binom", (X, TWO))),
        (r"\begin{pmatrix} 1 & 2 \\ x & y \end{pmatrix}", Matrix(((ONE, TWO), (X, Y)))),
        (r"\sum_{k=1}^{3} k", Series("sum", "#0", ONE, THREE, Symbol("#0"))),
    ],
)
def test_productions(text: str, tree: Node) -> None:
    assert parser(text).expression() == tree


@pytest.mark.parametrize(
    ("text", "rest"),
    [("x + 1", ""), (r"5\text{ cm}", "cm"), ("12 (units)", "(units)"), ("1, 2", ",2"), ("x = 1", "=1")],
)
def test_an_expression_ends_before_the_first_token_that_cannot_continue_it(text: str, rest: str) -> None:
    parsed = parser(text)
    parsed.expression()
    assert "".join(token.text for token in parsed.rest) == rest


@pytest.mark.parametrize("text", ["", "east", "(1", "1 +", r"\frac{1}", r"\begin{cases} 1 \end{cases}", "(1, 2)"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(NotAnExpression):
        parser(text).expression()
