"""Rational functions are compared exactly, by sympy's polynomials; at points the same comes out, and nothing takes long."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answer_grader.bounds import TooComplex
from answer_grader.expressions.arithmetic import Arithmetic, Undefined
from answer_grader.expressions.equality import _equal_at_points, equal
from answer_grader.expressions.nodes import Negative, Node, Number, Power, Product, Quotient, Sum, Symbol, symbols
from answer_grader.expressions.rational_functions import equal_rational_functions

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
def test_exactly_and_at_points_the_same_comes_out(left: Node, right: Node) -> None:
    split = Sum((Product((left, right)), Product((left, Sum((number(1), Negative(right)))))))
    for one, other in ((left, right), (left, split)):
        names = sorted(symbols(one) | symbols(other))
        exact = equal_rational_functions(one, other) if names else None
        if exact is None:
            continue
        try:
            assert _equal_at_points(one, other, names, False, Arithmetic()) == exact
        except (Undefined, TooComplex):
            continue
        assert exact or other is right, "f g + f (1 - g) is f"


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
    ],
)
def test_functions(left: Node, right: Node, same: bool) -> None:
    assert equal_rational_functions(left, right) is same
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
def test_what_is_none_or_too_large_is_left_to_points(node: Node) -> None:
    started = time.process_time()
    found = equal_rational_functions(node, Sum((X, Y, Z)))
    assert found is None or found is False
    assert time.process_time() - started < 1
    assert not equal(node, Sum((X, Y, Z)))
