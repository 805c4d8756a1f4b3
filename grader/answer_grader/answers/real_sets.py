"""Subsets of the real line: intervals, inequalities, their unions, intersections and differences.

Two regions are compared at points: at every end of an interval, just beside it, between the ends, and at a number of
further places. Membership is decided exactly, by putting the point into the inequality.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from answer_grader.answers.types import (
    Answer,
    AnswerList,
    Bracketed,
    FiniteSet,
    Joiner,
    NamedSet,
    Quantity,
    Relation,
    SetExpression,
    SetOperator,
    parts_of,
    variable_name,
)
from answer_grader.bounds import TooComplex
from answer_grader.expressions.arithmetic import Arithmetic, Undefined, Value
from answer_grader.expressions.equality import same_value
from answer_grader.expressions.evaluator import Evaluator
from answer_grader.expressions.nodes import symbols

_ORDERS = ("<", ">", "le", "ge", "ne")
_BESIDE = Fraction(1, 1009)
_FURTHER = tuple(Fraction(numerator, 7) for numerator in (-7000, *range(-83, 84, 5), 7000))


class NotARealSet(Exception):
    """The answer is no subset of the real line that can be compared by points."""


def is_real_set(answer: Answer) -> bool:
    """Whether an answer can be meant as a subset of the real line other than a finite set."""
    match answer:
        case NamedSet():
            return answer.name in ("R", "empty")
        case Bracketed(items, opening, _):
            return len(items) == 2 and opening in ("(", "[") and all(isinstance(item, Quantity) for item in items)
        case SetExpression(_, parts):
            return all(is_real_set(part) or isinstance(part, FiniteSet) for part in parts)
        case Relation(sides, operators):
            return (
                all(operator in _ORDERS for operator in operators)
                and all(isinstance(side, Quantity) for side in sides)
                and len(_variables(answer)) == 1
            ) or (operators == ("in",) and is_real_set(sides[1]))
        case AnswerList(items, _):
            regions = [isinstance(item, Relation) and is_real_set(item) for item in items]
            points = [_states_point(item) for item in items]
            whole = all(regions) or (any(regions) and len(_variables(answer)) == 1)
            return whole and all(one or other for one, other in zip(regions, points, strict=True))
        case _:
            return False


def same_real_set(left: Answer, right: Answer) -> bool:
    """Whether two regions have the same points. Inequalities must be in the same variable.

    One of the regions must show its ends (`-2 < x < 2`, not `x^2 < 4`), since the points are chosen by them.
    """
    names = _variables(left) | _variables(right)
    if len(names) > 1 or not (_is_explicit(left) or _is_explicit(right)):
        return False
    name = next(iter(names), "x")
    line = _Line(name, Arithmetic())
    try:
        return all(line.contains(left, point) == line.contains(right, point) for point in line.test_points(left, right))
    except (NotARealSet, TooComplex):
        return False


@dataclass(frozen=True)
class _Line:
    """The real line, as the values of a variable."""

    name: str
    arithmetic: Arithmetic

    def test_points(self, *regions: Answer) -> Iterator[Value]:
        arithmetic = self.arithmetic
        ends: list[Value] = []
        for end in (self._end(constant) for region in regions for constant in _constants(region)):
            if not arithmetic.is_infinite(end) and not any(same_value(end, known, arithmetic) for known in ends):
                ends.append(end)
        ends.sort(key=arithmetic.inexact)
        for end in ends:
            yield end
            yield arithmetic.add(end, -_BESIDE)
            yield arithmetic.add(end, _BESIDE)
        for low, high in pairwise(ends):
            yield arithmetic.divide(arithmetic.add(low, high), Fraction(2))
        if ends:
            yield arithmetic.add(ends[0], Fraction(-10))
            yield arithmetic.add(ends[-1], Fraction(10))
        yield from _FURTHER

    def contains(self, answer: Answer, point: Value) -> bool:
        match answer:
            case NamedSet(name):
                return name == "R"
            case Bracketed((first, last), opening, closing):
                low, high = self._end(first), self._end(last)
                if not self._in_order(low, high, opening == "[" and closing == "]"):
                    raise NotARealSet  # a pair of numbers, but no interval
                return self._in_order(low, point, opening == "[") and self._in_order(point, high, closing == "]")
            case FiniteSet(items):
                return any(same_value(self._end(item), point, self.arithmetic) for item in items)
            case SetExpression(SetOperator.UNION, parts):
                return any(self.contains(part, point) for part in parts)
            case SetExpression(SetOperator.INTERSECTION, parts):
                return all(self.contains(part, point) for part in parts)
            case SetExpression(SetOperator.DIFFERENCE, parts):
                return self.contains(parts[0], point) and not any(self.contains(part, point) for part in parts[1:])
            case AnswerList(items, joiner):
                return self._one_contains(items, joiner, point)
            case Relation((_, region), ("in",)):
                return self.contains(region, point)
            case Relation():
                return self._satisfies(answer, point)
            case _:
                raise NotARealSet

    def _one_contains(self, items: Sequence[Answer], joiner: Joiner, point: Value) -> bool:
        """`x < 1, x > 2` are alternatives; `x \\ne 1` and `x \\in \\mathbb{R}` in a list are conditions."""
        conditions = [
            item for item in items if joiner is Joiner.AND or (joiner is Joiner.COMMA and _is_condition(item))
        ]
        alternatives = [item for item in items if item not in conditions]
        return all(self.contains(item, point) for item in conditions) and (
            not alternatives or any(self.contains(item, point) for item in alternatives)
        )

    def _satisfies(self, relation: Relation, point: Value) -> bool:
        evaluator = Evaluator({self.name: point}, arithmetic=self.arithmetic)
        try:
            values = [evaluator.value(side.value) for side in relation.sides if isinstance(side, Quantity)]
        except Undefined:
            return False
        return all(map(self._holds, values, relation.operators, values[1:]))

    def _holds(self, left: Value, operator: str, right: Value) -> bool:
        if any(map(self.arithmetic.is_complex, (left, right))):
            return False
        if operator in ("=", "ne"):
            return same_value(left, right, self.arithmetic) == (operator == "=")
        if operator in (">", "ge"):
            left, right = right, left
        return self._in_order(left, right, operator in ("le", "ge"))

    def _in_order(self, low: Value, high: Value, equal_counts: bool) -> bool:
        if same_value(low, high, self.arithmetic):
            return equal_counts
        return bool(self.arithmetic.inexact(low) < self.arithmetic.inexact(high))

    def _end(self, item: Answer) -> Value:
        """The real number that an end or element is."""
        if not isinstance(item, Quantity):
            raise NotARealSet
        try:
            value = Evaluator(arithmetic=self.arithmetic).value(item.value)
        except Undefined as error:
            raise NotARealSet from error
        if self.arithmetic.is_complex(value):
            raise NotARealSet
        return value


def _states_point(answer: Answer) -> bool:
    """`x = 2`, which beside inequalities adds a single point."""
    if not isinstance(answer, Relation) or answer.operators != ("=",):
        return False
    left, right = answer.sides
    return variable_name(left) is not None and isinstance(right, Quantity) and not symbols(right.value)


def _is_condition(answer: Answer) -> bool:
    if not isinstance(answer, Relation):
        return False
    return answer.operators == ("ne",) or (answer.operators == ("in",) and isinstance(answer.sides[1], NamedSet))


def _constants(answer: Answer) -> Iterator[Answer]:
    """The numbers in a region."""
    if isinstance(answer, Quantity) and not symbols(answer.value):
        yield answer
    for part in parts_of(answer):
        yield from _constants(part)


def _variables(answer: Answer) -> frozenset[str]:
    """The variables of the inequalities; letters at the ends of intervals make the answer no region."""
    match answer:
        case Relation(sides, operators):
            if operators == ("in",):
                return frozenset()
            return frozenset().union(*(symbols(side.value) for side in sides if isinstance(side, Quantity)))
        case AnswerList(items, _) | SetExpression(_, items):
            return frozenset().union(*map(_variables, items))
        case _:
            return frozenset()


def _is_explicit(answer: Answer) -> bool:
    match answer:
        case Relation(sides, operators):
            return operators == ("in",) or all(
                isinstance(side, Quantity) and (variable_name(side) is not None or not symbols(side.value))
                for side in sides
            )
        case AnswerList(items, _) | SetExpression(_, items):
            return all(map(_is_explicit, items))
        case _:
            return True
