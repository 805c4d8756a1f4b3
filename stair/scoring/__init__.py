"""Answers and the numbers that follow from them: extraction, equivalence, metrics, intervals and tests.

`score` gives one response its verdict, `score_many` does so in worker processes. `metrics`, `transitions`, `conditioning`
and `shared_t1` compute the paper's values that follow from scored response rows.
"""

from stair.scoring.item import ScoreItem
from stair.scoring.pool import score_many
from stair.scoring.score import score
from stair.scoring.verdict import Score, Verdict

__all__ = ["Score", "ScoreItem", "Verdict", "score", "score_many"]
