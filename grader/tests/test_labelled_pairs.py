"""The verdicts on the labelled answer pairs."""

from collections import Counter

import pytest
from labelled import PAIRS

from answer_grader import Item, grade, grade_many

CLASSES = (
    "fractions radicals decimals grouping percent angles units currency ordinals bases matrices intervals equations "
    "expressions text times integers choices extraction"
)
MENDED = ("repeated formulas", "denials", "indeterminate forms", "option letters")
"""Classes of errors that graded responses of public models showed; their pairs precede the rules."""


def test_the_set_is_large_balanced_and_explained() -> None:
    assert len(PAIRS) >= 300
    assert 0.45 <= sum(pair["equal"] for pair in PAIRS) / len(PAIRS) <= 0.55
    assert all(pair["reason"] for pair in PAIRS)
    assert set(CLASSES.split()) <= {pair["class"] for pair in PAIRS}
    assert all(Counter(pair["class"] for pair in PAIRS)[name] >= 10 for name in MENDED)
    assert all(count >= 8 for count in Counter(pair["class"] for pair in PAIRS).values())


def test_accuracy() -> None:
    wrong = [
        f"{pair['class']}: {pair['response']} against {pair['reference']} ({pair['reason']})"
        for pair in PAIRS
        if verdict(pair) != pair["equal"]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["integer", "choice"])
def test_no_false_positive_among_integers_and_choices(kind: str) -> None:
    assert not [pair for pair in PAIRS if pair["kind"] == kind and verdict(pair) and not pair["equal"]]


def test_every_reference_equals_itself() -> None:
    for pair in PAIRS:
        assert grade(rf"\boxed{{{pair['reference']}}}", pair["reference"], pair["kind"]).correct, pair["reference"]


def test_workers_give_the_verdicts_of_this_process() -> None:
    items = [Item(pair["response"], pair["reference"], pair["kind"], pair["problem"]) for pair in PAIRS]
    assert grade_many(items, workers=2) == grade_many(items, workers=0)


def verdict(pair: dict[str, str]) -> bool:
    return grade(pair["response"], pair["reference"], pair["kind"], problem=pair["problem"]).correct
