"""What the scorer says about one response."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The four outcomes of scoring. All but `CORRECT` count as incorrect (appendix C.3)."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    """The response has no complete last box."""
    TIMEOUT = "timeout"
    """The worker that scored it used up its processor time or memory. Counted apart in every report."""


@dataclass(frozen=True, slots=True)
class Score:
    """A verdict and the extracted answer that it is about (None where the response has none)."""

    answer: str | None
    verdict: Verdict

    @property
    def correct(self) -> bool:
        return self.verdict is Verdict.CORRECT
