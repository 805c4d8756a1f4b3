"""The scores stage on a condition of a run, as the command calls it."""

from __future__ import annotations

from typing import Any, cast

from stair.config.paths import RunPaths
from stair.stages.evaluation import scores
from tests.sealed import seal


def score(paths: RunPaths, model: str, benchmark: str, condition: str) -> None:
    """Scores a condition's sealed responses in this process. Verdicts use no configuration."""
    facts = scores.score(cast(Any, None), paths, model, benchmark, condition, workers=0)
    seal(paths, "score_condition", paths.scored(model, benchmark, condition), **facts)
