"""Generated problems: exact answers, functions of names."""

from __future__ import annotations

import hashlib
import re
from dataclasses import astuple
from fractions import Fraction

import pytest
from answer_grader.extraction import last_boxed
from sympy import Rational, sympify

from stair.core import LETTERS
from stair.tiny.families import CHOICE_FAMILIES, FAMILIES
from stair.tiny.generated_sets import benchmark_problems
from stair.tiny.problems import PROFILES, GeneratedProblem, distinct, draw, seeded
from tools.tiny_backbones import lettered

SIZES = {"math500": 64, "aime2025": 30, "amc23": 40, "gpqa_diamond": 48}


def expected(problem: GeneratedProblem) -> str:
    """The answer, worked out from the text alone."""
    text = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"(\1/\2)", problem.text)
    if found := re.fullmatch(r"Is (.+) more than (\d+)\?", text):
        return f"\\text{{{'Yes' if sympify(found[1]) > int(found[2]) else 'No'}}}"
    if found := re.fullmatch(r"What percent of (\d+) is (\d+)\?", text):
        return f"{Rational(100 * int(found[2]), int(found[1]))}\\%"
    if found := re.fullmatch(r"What is \((\d+), (\d+)\) \+ \((\d+), (\d+)\)\?", text):
        a, b, c, d = map(int, found.groups())
        return f"({a + c}, {b + d})"
    value = Fraction(str(sympify(text.removeprefix("What is ").removesuffix("?"), rational=True)))
    return str(value) if value.denominator == 1 else f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_answer_follows_from_the_text_and_stands_in_the_box(family: str) -> None:
    for number in range(60):
        draft = FAMILIES[family].draw(seeded("test", family, number))
        problem = GeneratedProblem(family, "", draft.text, draft.steps, draft.answer)
        assert problem.answer == expected(problem)
        assert last_boxed(problem.solution) == problem.answer
        assert problem.solution.endswith(f"\\boxed{{{problem.answer}}}")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_equation_of_the_steps_holds(family: str) -> None:
    for number in range(60):
        steps = FAMILIES[family].draw(seeded("test", family, number)).steps
        equations = re.findall(r"([-\d*+ ]*\d) = (-?\d+)", steps)
        assert equations
        assert all(sympify(left) == int(right) for left, right in equations)


@pytest.mark.parametrize("family", CHOICE_FAMILIES)
def test_choice_questions_have_four_options_and_one_letter(family: str) -> None:
    for number in range(60):
        draft = CHOICE_FAMILIES[family].draw(seeded("test", family, number))
        options = {draft.answer, *draft.incorrect}
        assert len(options) == 4
        assert all(option in set("123456789") for option in options)
        order = seeded("order", number).sample(range(4), 4)
        shown = lettered(GeneratedProblem(family, "", draft.text, draft.steps, draft.answer, draft.incorrect), order)
        lines = shown.text.splitlines()[1:]
        assert [line[:3] for line in lines] == [f"{letter}. " for letter in LETTERS]
        assert lines[LETTERS.index(shown.answer)] == f"{shown.answer}. {draft.answer}"
        assert shown.solution.endswith(f"\\boxed{{{shown.answer}}}")
        # The options tried are the asked ones, in order, and only the last of them differs by nothing.
        tried = shown.steps.splitlines()[1:]
        assert len(tried) == LETTERS.index(shown.answer) + 1
        assert [line.endswith(" = 0") for line in tried] == [False] * (len(tried) - 1) + [True]
        for line in tried:
            left, right = line[3:].split(" = ")
            assert sympify(left) == int(right)


def test_answers_have_mixed_forms() -> None:
    answers = [problem.answer for problem in benchmark_problems("math500", SIZES["math500"])]
    forms = [r"\d+", r"-\d+", r"\\frac\{\d+\}\{\d+\}", r"\d+\\%", r"\(\d+, \d+\)", r"\\text\{(Yes|No)\}"]
    assert all(any(re.fullmatch(form, answer) for answer in answers) for form in forms)
    assert all(any(re.fullmatch(form, answer) for form in forms) for answer in answers)


def test_aime_answers_are_integers_below_a_thousand() -> None:
    assert all(0 <= int(problem.answer) <= 999 for problem in benchmark_problems("aime2025", 30))


def test_no_problem_stands_twice() -> None:
    texts = [problem.text for key, size in SIZES.items() for problem in benchmark_problems(key, size)]
    assert len(set(texts)) == len(texts) == sum(SIZES.values())


def test_a_problem_is_a_function_of_its_name_on_every_machine() -> None:
    drawn = repr([astuple(draw(profile, "golden", number)) for profile in sorted(PROFILES) for number in range(20)])
    assert drawn == repr(
        [astuple(draw(profile, "golden", number)) for profile in sorted(PROFILES) for number in range(20)]
    )
    assert hashlib.sha256(drawn.encode()).hexdigest()[:16] == "79ef993bcb6ee7fa"
    assert draw("backbone", "golden", 0) != draw("backbone", "another", 0)


def test_a_longer_list_begins_with_the_shorter() -> None:
    longer = distinct("math500", "seed", 40)
    assert distinct("math500", "seed", 15) == longer[:15]
    avoided = {problem.text for problem in longer[:5]}
    assert not avoided & {problem.text for problem in distinct("math500", "seed", 40, avoid=avoided)}


def test_more_problems_than_there_are_are_refused() -> None:
    with pytest.raises(ValueError, match="fewer than 160"):
        distinct("gpqa_diamond", "seed", 160)
