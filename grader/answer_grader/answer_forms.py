"""How many responses the rules on the answer's form decide: counted beside the accuracy, without effect on verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass

from answer_grader.extraction import ends_in_several_boxes
from answer_grader.grading import grade_without_comparison
from answer_grader.verdict import Item, Verdict


@dataclass(frozen=True, slots=True)
class AnswerForms:
    """Counts over responses."""

    several_boxes: int
    """responses that end with several adjacent boxes, of which the last one counts"""
    choice_text: int | None
    """further responses that `accept_choice_text` would make correct; None where no question lists its choices"""

    def __str__(self) -> str:
        counts = {
            "end in several adjacent boxes, of which the last one counts": self.several_boxes,
            "would be correct with --accept-choice-text": self.choice_text,
        }
        return "; ".join(f"{count} {text}" for text, count in counts.items() if count)

    def __add__(self, other: "AnswerForms") -> "AnswerForms":
        counts = [each.choice_text for each in (self, other) if each.choice_text is not None]
        return AnswerForms(self.several_boxes + other.several_boxes, sum(counts) if counts else None)


def answer_forms(items: Sequence[Item], verdicts: Sequence[Verdict]) -> AnswerForms:
    """The counts for items and their verdicts, in the same order."""
    several = sum(ends_in_several_boxes(item.response) for item in items)
    with_choices = [
        (item, verdict)
        for item, verdict in zip(items, verdicts, strict=True)
        if item.kind == "choice" and item.choices is not None
    ]
    gained = sum(not verdict.correct and _correct_with_text(item) for item, verdict in with_choices)
    return AnswerForms(several, gained if with_choices else None)


def _correct_with_text(item: Item) -> bool:
    result = grade_without_comparison(item, accept_choice_text=True)
    return isinstance(result, Verdict) and result.correct
