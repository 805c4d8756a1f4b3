"""Scoring many responses at once."""

import resource
import subprocess
import sys

import pytest

from answer_grader import Item, grade, grade_many
from answer_grader.pool import grade_each


def test_order_is_kept_and_repeated_answers_share_their_verdict() -> None:
    items = [Item(rf"\boxed{{{number % 7}}}", "3", "integer") for number in range(300)]
    verdicts = grade_many(items, workers=2)
    assert [(each.answer, each.correct) for each in verdicts] == [
        (str(number % 7), number % 7 == 3) for number in range(300)
    ]


def test_items_of_all_kinds_together() -> None:
    items = [
        Item(r"\boxed{c}", "C", "choice"),
        Item("no box", "C", "choice"),
        Item(r"\boxed{0.5}", r"\frac{1}{2}", "math"),
        Item(r"\boxed{5}", "5", "integer", finish_reason="context"),
        Item(r"\boxed{5\%}", "0.05", "math", "What is the probability?"),
    ]
    assert [each.outcome for each in grade_many(items)] == ["correct", "no_answer", "correct", "wrong", "correct"]
    assert grade_many([]) == []


def test_an_unusable_reference_is_named_and_does_not_stop_the_others() -> None:
    items = [Item(r"\boxed{5}", "5", "integer"), Item(r"\boxed{5}", "five and a half", "integer")]
    with pytest.raises(ValueError, match="item 1: reference 'five and a half' is not an integer"):
        grade_many(items)
    results = grade_each(items)
    assert results[0] == grade(r"\boxed{5}", "5", "integer")
    assert isinstance(results[1], ValueError)


def processor_time() -> float:
    """Of this process and of the workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def test_the_parent_imports_no_mathematics() -> None:
    code = (
        "import sys; from answer_grader import Item, grade_many;"
        "assert grade_many([Item(r'\\boxed{5}', '5', 'integer')])[0].correct;"
        "sys.exit(any(name in sys.modules for name in ('sympy', 'mpmath', 'pandas', 'scipy', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
