"""`parse` and `verify` with the signatures of math-verify, for code that was written for it."""

from __future__ import annotations

import math
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


def verify(reference: object, response: object, *_: object, problem: str | None = None, **__: object) -> bool:
    """Whether a response has the reference's answer, in math-verify's order of arguments.

    Both may be texts or results of `parse`. Of a list, the first entry counts. A number or another object is taken as its
    text (`str`). No response, and one without an answer, is never correct. math-verify's further arguments
    (`float_rounding`, `strict`, `timeout_seconds` and others) are accepted and have no effect.

    Raises ValueError for a reference that is missing (None, NaN, an empty list), empty or overlong.
    """
    expected, stated = _parsed(reference), _parsed(response)
    if expected is None:
        raise ValueError(
            f"the reference is missing, empty or of more than {MAX_ANSWER_CHARACTERS:,} characters: {reference!r:.60}"
        )
    if stated is None:
        return False
    from answer_grader.matching import equivalent

    return equivalent(stated.text, expected.text, problem)[0]


def _parsed(side: object) -> Parsed | None:
    if isinstance(side, list | tuple):
        side = next(iter(side), None)
    if isinstance(side, Parsed):
        return side
    if side is None or (isinstance(side, float) and math.isnan(side)):
        return None
    return next(iter(parse(str(side))), None)
