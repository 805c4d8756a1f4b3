"""Near-duplicates: the sparse products against a comparison of every pair by sets."""

from __future__ import annotations

import random

from stair.stages.data import near_duplicates as module
from stair.stages.data.near_duplicates import CONTAINMENT, JACCARD, near_duplicates, shingles
from stair.stages.data.problem_texts import normalised

LONG = "Let x and y be positive integers with x + y = 12. Find the largest value that the product x y can take."
APPENDED = LONG + " The answer is in the form k*m, where k and m are integers. Please provide the value of k + m."


def test_an_appended_sentence_and_a_changed_word_are_found_and_an_equal_text_is_not() -> None:
    problems = {
        "p1": APPENDED,
        "p2": LONG.replace("largest", "greatest"),
        "p3": LONG.upper(),
        "p4": "What is the area of a circle whose radius is three centimetres, in square centimetres?",
    }
    found = near_duplicates(problems, {("b", "7"): LONG, ("c", "8"): "What is 1 + 1?"})
    by = {pair.problem_id: pair for pair in found}
    assert by.keys() == {"p1", "p2"}
    assert {(pair.benchmark, pair.source_id) for pair in found} == {("b", "7")}
    assert by["p1"].containment == 1.0
    assert by["p1"].jaccard < JACCARD <= by["p2"].jaccard


def test_a_short_question_is_not_found_in_every_long_text() -> None:
    assert near_duplicates({"p": "What is 1 + 1? " + LONG}, {("b", "0"): "What is 1 + 1?"}) == []


def test_all_pairs_are_compared_as_sets_would_be() -> None:
    draw = random.Random(0)
    words = ["find the", "sum", "of all", "real", "x", "such that", "y is", "prime", "and 3", "or 5", "divides", "it"]

    def text() -> str:
        return " ".join(draw.choices(words, k=draw.randint(3, 12)))

    problems = {f"p{n}": text() for n in range(300)}
    questions = {("b", str(n)): text() for n in range(40)}
    for n in range(20):  # so that some pairs are near
        problems[f"p{n}"] = questions["b", str(n)] + draw.choice([" or", " is it", ""])
    expected = set()
    for problem, one in problems.items():
        for (_, source), other in questions.items():
            a, b = shingles(one), shingles(other)
            near = len(a & b) / len(a | b) >= JACCARD or (len(b) >= 20 and len(a & b) / len(b) >= CONTAINMENT)
            if near and normalised(one) != normalised(other):
                expected.add((problem, source))
    assert len(expected) > 5
    assert {(pair.problem_id, pair.source_id) for pair in near_duplicates(problems, questions)} == expected


def test_batches_do_not_matter(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    problems = {f"p{n}": LONG.replace("12", str(n)) for n in range(10)}
    questions = {("b", "7"): LONG}
    whole = near_duplicates(problems, questions)
    monkeypatch.setattr(module, "_ROWS", 3)
    assert near_duplicates(problems, questions) == whole
    assert len(whole) == 10


def test_nothing_against_nothing() -> None:
    assert near_duplicates({}, {("b", "7"): LONG}) == near_duplicates({"p": LONG}, {}) == []
