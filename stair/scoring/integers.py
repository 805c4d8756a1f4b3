"""Integer answers: equal decimal or fractional forms count, exactly; two values never do (appendix "Answer Scoring")."""

from stair.scoring.equivalence import exact_value


def same_integer(answer: str, reference: str, problem_hint: str | None = None) -> bool:
    """Whether the answer is the reference's integer.

    Raises ValueError if the reference is no integer.
    """
    expected = exact_value(reference)
    if expected is None or expected.denominator != 1:
        raise ValueError(f"reference {reference!r} is not an integer")
    return exact_value(answer) == expected
