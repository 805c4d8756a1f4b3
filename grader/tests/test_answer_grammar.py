"""From text to typed answers."""

from fractions import Fraction

import pytest

from answer_grader import verify
from answer_grader.answers.grammar import parse_answer
from answer_grader.answers.requested_format import RequestedFormat
from answer_grader.answers.types import (
    AnswerList,
    BasedNumeral,
    Bracketed,
    FiniteSet,
    NamedSet,
    Quantity,
    Ratio,
    Relation,
    SetExpression,
    TimeOfDay,
    Words,
)
from answer_grader.answers.units import UNITS
from answer_grader.expressions.equality import exact_value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (r"\frac{1}{2}x", Quantity),
        (r"5\text{ cm}", Quantity),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", Quantity),
        ("3146_7", BasedNumeral),
        (r"4:30 \text{ p.m.}", TimeOfDay),
        ("3:2:1", Ratio),
        ("(1,2]", Bracketed),
        (r"\{1,2\}", FiniteSet),
        ("1, 2", AnswerList),
        (r"1 \text{ or } 2", AnswerList),
        (r"(-\infty,1)\cup(2,\infty)", SetExpression),
        (r"\emptyset", NamedSet),
        ("x < 2", Relation),
        (r"\text{north east}", Words),
        (r"\begin{cases}1\\2\end{cases}", Words),
    ],
)
def test_kind(text: str, kind: type) -> None:
    assert isinstance(parse_answer(text), kind)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234", 1234),
        (r"10\,000", 10000),
        (r"0.\overline{3}", Fraction(1, 3)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r"1\frac{1}{2}", Fraction(3, 2)),
        (r"2^{10}", 1024),
        (r"\sqrt[3]{-27}", -3),
        (r"\binom{5}{2}", 10),
        ("5!!", 15),
        (r"\lfloor -2.5 \rfloor", -3),
        (r"\gcd(12, 18)", 6),
        (r"1.5 \times 10^{3}", 1500),
        (r"\begin{vmatrix}1&2\\3&4\end{vmatrix}", -2),
        (r"\text{two hundred and five}", 205),
        (r"\text{one hundred twenty-one}", 121),
    ],
)
def test_value(text: str, value: Fraction) -> None:
    answer = parse_answer(text)
    assert isinstance(answer, Quantity)
    assert exact_value(answer.value) == value


def test_commas_without_spaces_group_or_separate() -> None:
    assert isinstance(parse_answer("100,200"), Quantity)
    assert isinstance(parse_answer("100,200", grouping=False), AnswerList)
    assert isinstance(parse_answer("1,2"), AnswerList)


@pytest.mark.parametrize(
    ("problem", "wanted"),
    [
        ("How many square feet does it cover?", "square feet"),
        ("Find the speed in miles per hour.", "mph"),
        ("How many cents does it cost?", "cents"),
        ("How many solutions are there?", None),
        ("Express your answer in simplest form.", None),
    ],
)
def test_the_unit_that_a_problem_asks_for(problem: str, wanted: str | None) -> None:
    unit = RequestedFormat.from_problem(problem).unit
    if wanted is None:
        assert unit is None
    elif wanted == "square feet":
        assert unit is not None
        assert unit.dimensions == (("m", 2),)
    else:
        assert unit == UNITS[wanted]


@pytest.mark.parametrize(
    ("problem", "asks"),
    [
        ("What percent of the students passed?", True),
        ("By what percentage did it rise?", True),
        ("A shirt is 20% off. What does it cost?", False),
        ("What is 20% of 50?", False),
    ],
)
def test_whether_a_percentage_is_asked_for(problem: str, asks: bool) -> None:
    assert RequestedFormat.from_problem(problem).wants_percent is asks


@pytest.mark.parametrize(
    ("problem", "base"),
    [
        ("Express the answer in base 7.", 7),
        ("Convert $1126$ to base seven.", 7),
        ("What is $3146_7$ in base 10?", 10),
        ("Add $12_3$ and $21_3$. Express your answer in base $3$.", 3),
        ("The base of the triangle is 5.", None),
    ],
)
def test_the_base_that_a_problem_asks_for(problem: str, base: int | None) -> None:
    assert RequestedFormat.from_problem(problem).base == base


def test_the_set_of_the_empty_set_is_not_empty() -> None:
    for left, right, same in (
        (r"\{\emptyset\}", r"\emptyset", False),
        (r"\{\emptyset\}", r"\{\}", False),
        (r"\{\{\}\}", r"\emptyset", False),
        (r"\{\{\}\}", r"\{\varnothing\}", True),
        (r"\{\}", r"\varnothing", True),
        (r"\{\emptyset, \{1\}\}", r"\{\{1\}, \emptyset\}", True),
        (r"\{\emptyset, \{1\}\}", r"\{\{1\}\}", False),
    ):
        assert verify(left, right) is verify(right, left) is same, (left, right)
