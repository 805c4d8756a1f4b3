"""Whether an extracted mathematical answer counts as correct, by kind. Runs in the workers."""

from stair.grading.equivalence import equivalent
from stair.grading.integers import same_integer


def answer_matches(answer: str, reference: str, kind: str, problem_hint: str | None) -> bool:
    """Whether the answer counts as correct. Raises ValueError for a reference that cannot be used."""
    if kind == "integer":
        return same_integer(answer, reference, problem_hint)
    return equivalent(answer, reference, problem_hint)
