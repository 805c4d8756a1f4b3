"""`parse` and `verify` with the signatures of math-verify, for code that was written for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from answer_grader.bounds import MAX_ANSWER_CHARACTERS
from answer_grader.extraction import last_boxed

if TYPE_CHECKING:
    from answer_grader.answers.types import Answer


@dataclass(frozen=True, slots=True)
class Parsed:
    """An extracted answer."""

    text: str

    @property
    def value(self) -> Answer:
        """The answer as the rules read it."""
        from answer_grader.answers.grammar import parse_answer

        return parse_answer(self.text)

    def __str__(self) -> str:
        return self.text


def parse(text: str, *_: object, **__: object) -> list[Parsed]:
    r"""The answer in a text: its last `\boxed`, or the whole text if that has no box. Empty if there is none.

    math-verify's further arguments (`extraction_config`, `parsing_timeout` and others) are accepted and have no effect.
    """
    answer = last_boxed(text) if "boxed" in text or "\\fbox" in text else text.strip()
    return [Parsed(answer)] if answer and len(answer) <= MAX_ANSWER_CHARACTERS else []


def verify(
    reference: str | list[Parsed], response: str | list[Parsed], *_: object, problem: str | None = None, **__: object
) -> bool:
    """Whether a response has the reference's answer, in math-verify's order of arguments.

    Both may be texts or results of `parse`. An empty one is never correct. math-verify's further arguments
    (`float_rounding`, `strict`, `timeout_seconds` and others) are accepted and have no effect.
    """
    sides = [parse(side) if isinstance(side, str) else side for side in (reference, response)]
    if not all(sides):
        return False
    from answer_grader.matching import equivalent

    return equivalent(sides[1][0].text, sides[0][0].text, problem)[0]
