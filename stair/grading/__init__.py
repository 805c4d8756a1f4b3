"""Verdicts on answers (appendix C.3), usable alone: `score` for one response, `score_many` in worker processes."""

from stair.grading.item import ScoreItem
from stair.grading.pool import score_many
from stair.grading.score import score
from stair.grading.verdict import Score, Verdict

__all__ = ["Score", "ScoreItem", "Verdict", "score", "score_many"]
