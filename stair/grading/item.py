"""One response to be scored, with all that its verdict depends on."""

from collections.abc import Sequence
from dataclasses import dataclass

from stair.grading.score import Kind


@dataclass(frozen=True, slots=True)
class ScoreItem:
    """The arguments of one call of `score`."""

    response: str
    reference: str
    kind: Kind
    problem_hint: str | None = None
    choices: Sequence[str] | None = None
    finish_reason: str | None = None
