"""The verdicts on the labelled answer pairs."""

from collections import Counter

import pytest
from labelled import PAIRS

from answer_grader import Item, Verdict, grade, grade_many

CLASSES = (
    "fractions radicals decimals grouping percent angles units currency ordinals bases matrices intervals equations "
    "expressions text times integers choices extraction"
)
MENDED = ("repeated formulas", "denials", "indeterminate forms", "option letters")
"""Classes of errors that graded responses of public models showed; their pairs precede the rules."""
ITEMS = [Item(pair["response"], pair["reference"], pair["kind"], pair["problem"]) for pair in PAIRS]


def test_the_set_is_large_balanced_and_explained() -> None:
    assert len(PAIRS) >= 300
    assert 0.45 <= sum(pair["equal"] for pair in PAIRS) / len(PAIRS) <= 0.55
    assert all(pair["reason"] for pair in PAIRS)
    assert set(CLASSES.split()) <= {pair["class"] for pair in PAIRS}
    assert all(Counter(pair["class"] for pair in PAIRS)[name] >= 10 for name in MENDED)
    assert all(count >= 8 for count in Counter(pair["class"] for pair in PAIRS).values())


@pytest.fixture(scope="module")
def results() -> list[Verdict]:
    """Graded in this process, once for all tests."""
    return grade_many(ITEMS, workers=0)


def test_accuracy(results: list[Verdict]) -> None:
    wrong = [
        f"{pair['class']}: {pair['response']} against {pair['reference']} ({pair['reason']})"
        for pair, result in zip(PAIRS, results, strict=True)
        if result.correct != pair["equal"]
    ]
    assert not wrong, "\n".join(wrong)


def test_every_reference_equals_itself() -> None:
    for pair in PAIRS:
        assert grade(rf"\boxed{{{pair['reference']}}}", pair["reference"], pair["kind"]).correct, pair["reference"]


def test_workers_give_the_verdicts_of_this_process(results: list[Verdict]) -> None:
    assert grade_many(ITEMS, workers=2) == results
