"""Which texts are one problem (appendix B.4)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stair.stages.data.problem_texts import identity, normalised, record_identity, strip_fixed

SAME = [
    ("What is 2 + 3?", "what  is 2+3 ?"),
    ("What is\n\t2 + 3?", "What is 2 + 3?"),
    ("Find $x$.", "Find x."),
    ("Find \\(x\\).", "Find \\[x\\]."),
    ("\\left( \\frac{1}{2} \\right)", "(\\dfrac{1}{2})"),
    ("\\tfrac12", "\\frac12"),
    ("a \\cdot b", "a\\times b"),
    ("x \\leqslant 3", "x \\leq 3"),
    ("\\text{cm}", "cm"),
    ("\\mathrm{lcm}(a,b)", "\\text{lcm}(a,b)"),
    ("1\\,000\\;\\!", "1000"),
    ("x~y", "x y"),
    ("x² + ①", "x2 + 1"),  # NFKC
    ("ﬁnd", "find"),
    ("Ｘ＋１", "x+1"),
    ("CAFÉ", "cafe\u0301"),
]
DIFFERENT = [
    ("What is 2 + 3?", "What is 2 - 3?"),
    ("What is 2 + 3?", "What is 2 + 3.0?"),
    ("\\frac{1}{2}", "\\frac{2}{1}"),
    ("\\sin x", "\\cos x"),
    ("x^2", "x_2"),
    ("\\leftarrow", "arrow"),  # a command is only dropped whole
    ("\\textstylex y", "xy"),
    ("x \\leq 3", "x \\geq 3"),
    ("1 + \\cdots + n", "1 + \\times s + n"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_formatting_does_not_make_another_problem(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert identity(one) == identity(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_content_makes_another_problem(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)
    assert identity(one) != identity(other)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="aB \\{}$,.;~tex12\n×²"))
def test_spaces_dollars_and_case_never_matter(text: str) -> None:
    assert " " not in normalised(text)
    spaced = "".join(f"{character} " if character not in "\\" else character for character in text)
    if "\\" not in text:
        assert normalised(spaced.upper()) == normalised(text.lower().upper())


def test_the_options_of_a_problem_belong_to_its_identity() -> None:
    assert identity("q", "a", "b") != identity("q", "a", "c")
    assert identity("q", "ab") != identity("q", "a", "b")
    assert identity("q").startswith("p")
    assert len(identity("q")) == 16


def test_a_source_record_is_a_text_with_an_answer_as_they_stand() -> None:
    assert record_identity("What is 1?", "1") != record_identity("What  is 1?", "1")
    assert record_identity("What is 1?", "1") != record_identity("What is 1?", "2")
    assert record_identity("a1", "2") != record_identity("a", "12")
    assert record_identity("a", "1") == record_identity("a", "1")


def test_fixed_texts_are_removed_at_the_ends_only() -> None:
    prefixes, suffixes = ["Solve this.\n\n"], ["\n\nRemember."]
    assert strip_fixed("Solve this.\n\nWhat is 1?\n\nRemember.", prefixes, suffixes) == "What is 1?"
    assert strip_fixed("  What is 1? ", prefixes, suffixes) == "What is 1?"
    inner = "Why Solve this.\n\n and\n\nRemember. it?"
    assert strip_fixed(inner, prefixes, suffixes) == inner
