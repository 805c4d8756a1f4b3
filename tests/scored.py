"""The scores stage on a condition of a run, as the command calls it."""

from __future__ import annotations

from stair.config.paths import RunPaths
from stair.stages.evaluation.scores import score_condition
from tests.sealed import seal


def score(paths: RunPaths, model: str, benchmark: str, condition: str) -> None:
    """Scores a condition's sealed responses in this process."""
    output = paths.scored(model, benchmark, condition)
    facts = score_condition(
        paths.benchmark(benchmark),
        paths.responses(model, benchmark, condition),
        output,
        name=f"{model}/{benchmark}/{condition}",
        workers=0,
    )
    seal(paths, "score_condition", output, **facts)
