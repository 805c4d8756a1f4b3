"""Whether two typed answers say the same. Different types are equal only where one is a way of writing the other."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

from answer_grader.answers.canonical_form import (
    are_named,
    canonical,
    is_several,
    items_of,
    matrix_of,
    names_quantity,
    names_value,
    names_variable,
    stated_value,
    unified_name,
)
from answer_grader.answers.equations import reversed_relation, same_solutions
from answer_grader.answers.notations import minutes_after_midnight
from answer_grader.answers.quantity_comparison import same_quantity
from answer_grader.answers.real_sets import is_real_set, same_real_set
from answer_grader.answers.requested_format import RequestedFormat, factor_count, has_common_divisor, is_expanded
from answer_grader.answers.types import (
    Answer,
    AnswerList,
    BasedNumeral,
    Bracketed,
    Family,
    FiniteSet,
    Joiner,
    NamedSet,
    Quantity,
    Ratio,
    Relation,
    SetExpression,
    SetOperator,
    TimeOfDay,
    Words,
)
from answer_grader.answers.vectors import as_vector
from answer_grader.answers.words import sentence_states
from answer_grader.expressions.equality import equal, exact_value, same_in_some_order
from answer_grader.expressions.matrices import as_matrix
from answer_grader.expressions.nodes import (
    Call,
    Constant,
    Matrix,
    Node,
    Number,
    Product,
    Quotient,
    Sum,
    Symbol,
    children,
    contains,
    replaced,
    symbols,
)


class Comparison:
    """Compares answers with references under what the problem says of the format."""

    def __init__(self, requested: RequestedFormat) -> None:
        self.requested = requested

    def states(self, answer: Answer, reference: Answer) -> bool:
        r"""Whether a whole answer says what the reference says; `\text{the function is even}` says `even`."""
        return self.same(answer, reference) or sentence_states(answer, reference)

    def same(self, answer: Answer, reference: Answer) -> bool:
        answer, reference = _with_one_index(canonical(answer), canonical(reference))
        answer, reference = as_vector(answer, reference), as_vector(reference, answer)
        answer, reference = _as_union(answer, reference), _as_union(reference, answer, is_reference=True)
        if isinstance(answer, Words) and isinstance(reference, Words):
            return answer.text.replace(" ", "") == reference.text.replace(" ", "")
        if is_real_set(answer) and is_real_set(reference) and not self._are_pairs(answer, reference):
            relations = isinstance(answer, Relation) and isinstance(reference, Relation)
            return same_real_set(answer, reference) or (relations and self._same_relations(answer, reference))
        if is_several(answer) or is_several(reference):
            return self._same_several(answer, reference)
        if isinstance(answer, Relation) or isinstance(reference, Relation):
            return self._same_relations(answer, reference)
        if isinstance(answer, Bracketed) or isinstance(reference, Bracketed):
            return self._same_bracketed(answer, reference)
        if isinstance(answer, BasedNumeral) or isinstance(reference, BasedNumeral):
            return self._same_based_numerals(answer, reference)
        if isinstance(answer, TimeOfDay | Ratio) or isinstance(reference, TimeOfDay | Ratio):
            return self._same_times_or_ratios(answer, reference)
        if isinstance(answer, Quantity) and isinstance(reference, Quantity):
            return same_quantity(answer, reference, self.requested, self._same_expression)
        if isinstance(answer, SetExpression) and isinstance(reference, SetExpression):
            return answer.operator == reference.operator and self._match(answer.parts, reference.parts)
        return isinstance(answer, NamedSet) and answer == reference

    # Expressions

    def _same_expression(self, answer: Node, reference: Node) -> bool:
        matrices = as_matrix(answer), as_matrix(reference)
        if matrices[0] is not None or matrices[1] is not None:
            return self._same_matrices(*matrices)
        if self.requested.wants_factors and factor_count(reference) > max(1, factor_count(answer)):
            return False
        if self.requested.wants_factors and has_common_divisor(answer) and not has_common_divisor(reference):
            return False
        if self.requested.wants_expansion and is_expanded(reference) and not is_expanded(answer):
            return False
        if equal(answer, _with_integration_constant(reference, answer)):
            return True
        degree = Constant("degree")
        if contains(answer, degree) == contains(reference, degree) or self.requested.wants_radians:
            return False
        if contains(answer, Call) or contains(reference, Call):
            return False  # the cosine of 60 is not that of 60 degrees
        return equal(answer, reference, degree_is_one=True)

    def _same_matrices(self, answer: Matrix | None, reference: Matrix | None) -> bool:
        if answer is None or reference is None:
            return False
        sizes = [[len(row) for row in matrix.rows] for matrix in (answer, reference)]
        return sizes[0] == sizes[1] and all(map(equal, children(answer), children(reference)))

    # Several answers

    def _same_several(self, answer: Answer, reference: Answer) -> bool:
        sets = isinstance(answer, FiniteSet) or isinstance(reference, FiniteSet)
        if not sets and (isinstance(answer, Bracketed) or isinstance(reference, Bracketed)):
            return self._tuple_without_brackets(answer, reference)
        answers, references = items_of(answer, AnswerList, FiniteSet), items_of(reference, AnswerList, FiniteSet)
        if sets:
            if NamedSet("empty") in (answer, reference) or _holds_sets(answers) != _holds_sets(references):
                return False  # the set of the empty set has an item
            return self._match(self._distinct(answers), self._distinct(references))
        if isinstance(answer, AnswerList) and len(references) == 1 and answer.joiner is Joiner.OR:
            return all(self.same(each, references[0]) for each in answers)
        if len(answers) != len(references):
            return False
        if self.requested.wants_order or are_named(answer) != are_named(reference):
            return all(self.same(one, other) for one, other in zip(answers, references, strict=True))
        return self._match(answers, references)

    def _distinct(self, items: Sequence[Answer]) -> list[Answer]:
        distinct: list[Answer] = []
        for item in items:
            if not any(self.same(item, known) for known in distinct):
                distinct.append(item)
        return distinct

    def _match(self, answers: Sequence[Answer], references: Sequence[Answer]) -> bool:
        return len(answers) == len(references) and same_in_some_order(answers, references, self.same)

    def _tuple_without_brackets(self, answer: Answer, reference: Answer) -> bool:
        """`x = 1, y = 2` is the point (1, 2); `1, 2` is it where the problem asks for a point."""
        for several, group in ((answer, reference), (reference, answer)):
            if isinstance(several, AnswerList) and isinstance(group, Bracketed) and group.opening in ("(", "langle"):
                orders = [several.items] if self.requested.wants_tuple or are_named(several) else []
                if are_named(several):
                    orders.append(tuple(sorted(several.items, key=_name_of)))
                return len(several.items) == len(group.items) and any(
                    all(map(self.same, items, group.items)) for items in orders
                )
        return False

    # Equations and inequalities

    def _same_relations(self, answer: Answer, reference: Answer) -> bool:
        if isinstance(answer, Relation) and isinstance(reference, Relation):
            if same_solutions(answer, reference) or self._same_chain(reversed_relation(answer), reference):
                return True
            values = stated_value(answer), stated_value(reference)
            if values[0] is None or values[1] is None:
                return self._same_chain(answer, reference)
            names = unified_name(answer.source[0]), unified_name(reference.source[0])
            return (names[0] == names[1] or _is_formula_name(*names)) and self.same(values[0], values[1])
        if isinstance(answer, Relation):
            return self._states(answer, reference)
        assert isinstance(reference, Relation)
        value = stated_value(reference)
        if value is None or not names_quantity(reference.source[0]):
            return False
        if self.requested.wants_equation and isinstance(value, Quantity) and symbols(value.value):
            return False
        return self.same(answer, value)

    def _same_chain(self, answer: Relation, reference: Relation) -> bool:
        return answer.operators == reference.operators and all(map(self.same, answer.sides, reference.sides))

    def _states(self, answer: Relation, reference: Answer) -> bool:
        """Whether an equation, or a chain with an approximation at its end, states the reference's value."""
        operators, name = answer.operators, answer.source[0]
        named = names_value(name) or self.requested.mentions(name)
        if "approx" not in operators:
            return self._ends_with(answer.sides, operators, named, reference)
        first = operators.index("approx")
        if self._ends_with(answer.sides[: first + 1], operators[:first], named, reference):
            return True
        return ((first == 0 and named) or self.requested.wants_rounding) and self.same(answer.sides[-1], reference)

    def _ends_with(self, sides: Sequence[Answer], operators: Sequence[str], named: bool, reference: Answer) -> bool:
        """Whether a chain of equations has the reference's value on each side, perhaps after a name."""
        if not operators:
            return not (isinstance(sides[0], Quantity) and symbols(sides[0].value)) and self.same(sides[0], reference)
        return set(operators) <= {"=", "equiv"} and all(self.same(value, reference) for value in sides[named:])

    # Tuples, numerals, times

    def _are_pairs(self, answer: Answer, reference: Answer) -> bool:
        """Two pairs in brackets are compared by their ends, whatever they mean; one pair may be asked for as a point."""
        pairs = isinstance(answer, Bracketed) + isinstance(reference, Bracketed)
        return pairs == 2 or (pairs == 1 and self.requested.wants_point)

    def _same_bracketed(self, answer: Answer, reference: Answer) -> bool:
        if isinstance(answer, Bracketed) and isinstance(reference, Bracketed):
            return self._same_brackets(answer, reference) and all(map(self.same, answer.items, reference.items))
        matrices = matrix_of(answer), matrix_of(reference)
        if matrices[0] is not None and matrices[1] is not None:
            return self._same_matrices(*matrices)
        return False

    def _same_brackets(self, answer: Bracketed, reference: Bracketed) -> bool:
        if len(answer.items) != len(reference.items):
            return False
        answer_brackets, reference_brackets = ((each.opening, each.closing) for each in (answer, reference))
        vectors = {("(", ")"), ("langle", "rangle")}
        return answer_brackets == reference_brackets or {answer_brackets, reference_brackets} == vectors

    def _same_based_numerals(self, answer: Answer, reference: Answer) -> bool:
        if isinstance(answer, BasedNumeral) and isinstance(reference, BasedNumeral):
            return answer == reference
        based, other = (answer, reference) if isinstance(answer, BasedNumeral) else (reference, answer)
        assert isinstance(based, BasedNumeral)
        if not isinstance(other, Quantity) or other.unit is not None:
            return isinstance(other, Words) and self.requested.base == based.base and other.text.upper() == based.digits
        value = exact_value(other.value)
        if value is None or value.denominator != 1 or (based.base != 10 and self.requested.base != based.base):
            return False
        return str(value.numerator) == based.digits

    def _same_times_or_ratios(self, answer: Answer, reference: Answer) -> bool:
        if isinstance(answer, TimeOfDay) and isinstance(reference, TimeOfDay) and not self.requested.wants_ratio:
            return self._same_times_of_day(answer, reference)
        if not (self.requested.wants_ratio or isinstance(answer, Ratio) or isinstance(reference, Ratio)):
            return False
        parts, expected = _ratio(answer), _ratio(reference)
        return len(parts) == len(expected) > 0 and all(
            equal(Product((one, expected[0])), Product((other, parts[0])))
            for one, other in zip(parts[1:], expected[1:], strict=True)
        )

    def _same_times_of_day(self, answer: TimeOfDay, reference: TimeOfDay) -> bool:
        if bool(answer.period) == bool(reference.period) or max(answer.hour, reference.hour) > 12:
            return minutes_after_midnight(answer) == minutes_after_midnight(reference)
        if (answer.hour % 12, answer.minute) != (reference.hour % 12, reference.minute):
            return False
        if self.requested.period:
            return self.requested.period == (answer.period or reference.period)
        return bool(answer.period)


def _ratio(answer: Answer) -> tuple[Node, ...]:
    """The parts of an answer as a ratio; none if it is no ratio."""
    match answer:
        case Ratio(parts):
            return parts
        case TimeOfDay(hour, minute, ""):
            return _number(hour), _number(minute)
        case Quantity(Quotient(numerator, denominator), None):
            return numerator, denominator
        case Quantity(value, None):
            return value, _number(1)
        case _:
            return ()


def _is_plainly_interval(answer: Answer) -> bool:
    """Whether brackets differ or an end is infinite, as with no point."""
    if not isinstance(answer, Bracketed):
        return False
    ends = [item.value for item in answer.items if isinstance(item, Quantity)]
    return (answer.opening == "(") != (answer.closing == ")") or any(
        contains(end, Constant("infinity")) for end in ends
    )


def _as_union(answer: Answer, other: Answer, *, is_reference: bool = False) -> Answer:
    """`(0,1) or (2,3)`, or with a comma, as a union where the other side is one."""
    if not isinstance(other, SetExpression) or not isinstance(answer, AnswerList) or answer.joiner is Joiner.AND:
        return answer
    intervals = all(isinstance(item, Bracketed) and is_real_set(item) for item in answer.items)
    if is_reference and not any(_is_plainly_interval(item) for item in answer.items):
        return answer  # points, perhaps
    return SetExpression(SetOperator.UNION, answer.items) if intervals else answer


def _holds_sets(items: Sequence[Answer]) -> bool:
    return any(isinstance(item, FiniteSet) for item in items)


def _with_one_index(answer: Answer, reference: Answer) -> tuple[Answer, Answer]:
    """General solutions as their values, which have the same letter for the integer. One side may leave out what it is."""
    if not (isinstance(answer, Family) or isinstance(reference, Family)):
        return answer, reference
    (index, values), (other_index, other_values) = (
        (each.index, each.values) if isinstance(each, Family) else (_only_index(each), each)
        for each in (answer, reference)
    )
    return (_renamed(values, index, other_index) if index and other_index else values), other_values


def _only_index(answer: Answer) -> str | None:
    """The one variable of a value, after its name (`x =`), if it can be an integer by its letter."""
    values = [item.sides[-1] if isinstance(item, Relation) else item for item in items_of(answer, AnswerList)]
    names = frozenset().union(*(symbols(value.value) for value in values if isinstance(value, Quantity)))
    return next(iter(names)) if len(names) == 1 and names <= set("jklmn") else None


def _renamed(answer: Answer, name: str, other: str) -> Answer:
    """The same values with another letter for a variable."""
    match answer:
        case Quantity(value):
            return replace(answer, value=replaced(value, Symbol(name), Symbol(other)))
        case AnswerList(items):
            return replace(answer, items=tuple(_renamed(item, name, other) for item in items))
        case Relation(sides):
            return replace(answer, sides=tuple(_renamed(side, name, other) for side in sides))
        case _:
            return answer


def _name_of(item: Answer) -> str:
    return item.source[0] if isinstance(item, Relation) else ""


def _number(value: int) -> Number:
    return Number(Fraction(value))


def _is_formula_name(*names: str) -> bool:
    """`y` and `f(x)` name the same thing where a formula is asked for."""
    return any(name == "y" for name in names) and any("(" in name and names_variable(name) for name in names)


def _with_integration_constant(node: Node, other: Node) -> Node:
    """`f(x) + C` as `f(x) + c` where the other formula, of the same one variable, has its constant in that letter."""
    names, others = symbols(node), symbols(other)
    for name, letter in permutations("CcKk", 2):
        if len(names) == 2 and names - {name} == others - {letter} and names - others == {name}:
            constant, named = Symbol(name), Symbol(letter)
            if isinstance(node, Sum) and _is_once_a_term(constant, node) and _is_once_a_term(named, other):
                return Sum(tuple(named if term == constant else term for term in node.terms))
    return node


def _is_once_a_term(variable: Symbol, node: Node) -> bool:
    """Whether a variable is a term of a sum, and occurs nowhere else in it."""
    return (
        isinstance(node, Sum) and variable in node.terms and sum(variable.name in symbols(t) for t in node.terms) == 1
    )
