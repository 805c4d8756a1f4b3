"""Functions are compared at rational points: equal ones are found equal, others are not, and nothing takes long."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answer_grader import grade
from answer_grader.expressions.equality import equal
from answer_grader.expressions.nodes import Negative, Node, Number, Power, Product, Quotient, Sum, Symbol

X, Y, Z = (Symbol(name) for name in "xyz")


def number(value: int, under: int = 1) -> Number:
    return Number(Fraction(value, under))


def functions(depth: int = 3) -> st.SearchStrategy[Node]:
    leaves: st.SearchStrategy[Node] = st.one_of(
        st.sampled_from([X, Y]), st.builds(number, st.integers(-5, 5), st.integers(1, 4))
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda terms: Sum(tuple(terms))),
            st.lists(inner, min_size=2, max_size=3).map(lambda factors: Product(tuple(factors))),
            st.builds(Quotient, inner, inner),
            st.builds(Negative, inner),
            st.builds(Power, inner, st.integers(-2, 3).map(number)),
        ),
        max_leaves=2**depth,
    )


@settings(max_examples=150, deadline=None)
@given(functions(), functions())
def test_another_way_to_write_a_function_is_equal_and_a_near_one_is_not(left: Node, right: Node) -> None:
    split = Sum((Product((left, right)), Product((left, Sum((number(1), Negative(right)))))))
    near = Sum((left, Product((number(1, 10**9), Power(X, number(2))))))
    if equal(Product((number(0), split)), number(0)):  # it has values
        assert equal(left, split), "f g + f (1 - g) is f"
        assert not equal(left, near)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (
            Power(Sum((X, Y)), number(2)),
            Sum((Power(X, number(2)), Product((number(2), X, Y)), Power(Y, number(2)))),
            True,
        ),
        (Quotient(Sum((Power(X, number(2)), number(-1))), Sum((X, number(-1)))), Sum((X, number(1))), True),
        (Quotient(number(1), X), Power(X, number(-1)), True),
        (X, Y, False),
        (X, Product((number(10**9 + 1, 10**9), X)), False),
        (Power(X, number(0)), number(1), True),
        (Product((X, Power(X, number(2024)))), Power(X, number(2025)), True),
        (Product((X, Power(X, number(2024)))), Power(X, number(2024)), False),
        (Sum((Power(X, number(9)), Negative(X))), Sum((Power(X, number(7)), Negative(X))), False),
    ],
)
def test_functions(left: Node, right: Node, same: bool) -> None:
    assert equal(left, right) is same


@pytest.mark.parametrize(
    "node",
    [
        Power(X, Y),
        Power(X, number(1, 2)),
        Power(Sum((X, number(-1, 1), number(1))), number(99_999)),
        Power(Sum((X, Y, Z)), number(500)),
        Power(Power(Sum((X, number(1))), number(900)), number(900)),
        Power(Product((number(3), X)), number(10**9)),
        Quotient(number(1), Sum((X, Negative(X)))),
        Sum(tuple(Quotient(number(1), Sum((Product((number(3**9000 + n), X)), number(n + 1)))) for n in range(60))),
        Product(tuple(Sum((Product((number(7**2000), X)), Y, number(n, 5**2000))) for n in range(1, 80))),
        Power(Sum((X, Negative(X))), number(0)),
    ],
    ids=range(10),
)
def test_what_is_undefined_or_too_large_is_not_equal_and_ends(node: Node) -> None:
    assert not equal(node, Sum((X, Y, Z)))


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("|x-5|", "5-x"),
        (r"\sqrt{x^2-10x+25}", "5-x"),
        ("(x^2-10x+25)^{1/2}", "5-x"),
        ("|x-5|+|x+5|", "10"),
        ("|x-100|+|x-101|", "|2x-201|"),
        (r"|x-\sqrt{2}|+|x-\sqrt{3}|", r"|2x-\sqrt{2}-\sqrt{3}|"),
        ("|x-y-5|", "y+5-x"),
        ("|e^x-100000|", "100000-e^x"),
        (r"\max(x,5)", "5"),
        (r"\max(x,10^8)", "10^8"),
        (r"\min(x,20)", "x"),
        (r"\lfloor x+0.01\rfloor", r"\lfloor x\rfloor"),
        (r"\lfloor x\rfloor+1", r"\lceil x\rceil"),
        ("0^{x^2}", "0"),
        ("y=|x-5|", "y=5-x"),
        ("y>|x-5|", "y>5-x"),
        ("|x-5|<3", "5-x<3"),
    ],
)
def test_a_kink_or_jump_at_a_large_value_is_seen(answer: str, reference: str) -> None:
    assert not grade(rf"\boxed{{{answer}}}", reference)
    assert not grade(rf"\boxed{{{reference}}}", answer)


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        (r"\sqrt{x^2}", "|x|"),
        ("|x-5|", "|5-x|"),
        (r"\sqrt{x^2-10x+25}", "|x-5|"),
        (r"\max(x,5)", r"\frac{x+5+|x-5|}{2}"),
        (r"\lceil x\rceil", r"-\lfloor -x\rfloor"),
        (r"\lfloor x+5\rfloor", r"\lfloor x\rfloor+5"),
        (r"\sqrt{x^6+1}-x^3", r"\frac{1}{\sqrt{x^6+1}+x^3}"),
        (r"\ln|x-5|-\ln|x+5|", r"\ln\left|\frac{x-5}{x+5}\right|"),
        (r"\sqrt{ab}", r"\sqrt{a}\sqrt{b}"),
        ("2y=|2x-10|", "y=|x-5|"),
        (r"\frac{y}{\sqrt{x}}=2", r"y=2\sqrt{x}"),
        ("y>|x-5|", "|5-x|<y"),
        ("|x-5|<3", "2<x<8"),
    ],
)
def test_equal_functions_with_kinks_stay_equal(answer: str, reference: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", reference)
    assert grade(rf"\boxed{{{reference}}}", answer)
