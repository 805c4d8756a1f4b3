"""Texts on published pages; a digest replaces the text of data sets whose authors ask for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from stair.config.model import Config
from stair.stages.data.near_duplicates import overlapping
from stair.stages.data.problem_texts import identity

_SHOWN = 160

_WITHHELD = 0.3
"""A training problem that has this share of the shorter text in common with a withheld question is withheld too.

The share is far below that of near-duplicates, because a withheld example costs nothing."""


class ExampleTexts:
    """Texts for examples, as far as they may be published."""

    def __init__(
        self,
        config: Config,
        questions: Mapping[tuple[str, str], str],
        problems: Mapping[str, str],
    ) -> None:
        self._publish = {key: item.publish_text for key, item in config.benchmarks.items()}
        self._publish_pool = config.training_pool.publish_text
        self._questions = questions
        self._problems = problems
        # A training problem can contain the text of a withheld question, or a part of it.
        withheld = [text for (key, _), text in questions.items() if not self._publish[key]]
        self._withheld = overlapping(problems, withheld, _WITHHELD) | {identity(text) for text in withheld}

    def question(self, benchmark: str, source: str) -> str:
        return example(self._questions[benchmark, source], self._publish[benchmark])

    def problem(self, problem: str) -> str:
        """A training problem; withheld if it equals or resembles a withheld question."""
        return example(self._problems[problem], self._may_show(problem))

    def answers(self, problem: str, answers: Iterable[str]) -> str:
        """A training problem's answers, which can quote withheld text."""
        return ", ".join(sorted(answers)) if self._may_show(problem) else "(not published)"

    def _may_show(self, problem: str) -> bool:
        return self._publish_pool and problem not in self._withheld


def text_digest(text: str) -> str:
    """The digest that replaces a text that may not be published."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def example(text: str, publish: bool) -> str:
    """A text as a published page shows it: on one line and shortened, or only its digest."""
    if not publish:
        return f"(not published; {text_digest(text)[:23]})"
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
