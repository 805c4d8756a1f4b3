"""A response to grade, and what the grader says about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from answer_grader.answers.types import Answer

Kind = Literal["math", "integer", "choice"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Item:
    """The arguments of one call of `grade`."""

    response: str
    reference: str
    kind: Kind = "math"
    problem: str | None = None
    choices: Sequence[str] | None = None
    finish_reason: str | None = None


class Outcome(str, Enum):
    """The four outcomes of grading. All but `CORRECT` count as incorrect."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    """The response has no complete last box."""
    TIMEOUT = "timeout"
    """The worker that compared it used up its processor time or memory."""

    __str__ = str.__str__


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and the texts that it is about. It is true where the answer is correct."""

    answer: str | None
    """the extracted answer; None where the response has none"""
    reference: str
    outcome: Outcome
    reason: str
    """the rule that decided, for people"""

    @property
    def correct(self) -> bool:
        return self.outcome is Outcome.CORRECT

    def __bool__(self) -> bool:
        return self.correct

    @property
    def parsed_answer(self) -> Answer | None:
        """The answer as the rules for mathematics read it."""
        from answer_grader.answers.grammar import parse_answer  # takes a moment, and few need it

        return None if self.answer is None else parse_answer(self.answer)

    @property
    def parsed_reference(self) -> Answer:
        """The reference as the rules for mathematics read it."""
        from answer_grader.answers.grammar import parse_answer

        return parse_answer(self.reference)
