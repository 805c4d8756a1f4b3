"""The scores stage on a condition of a run, as the command calls it."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.evaluation.scores import score_condition


def score(config: Config, paths: RunPaths, model: str, benchmark: str, condition: str) -> None:
    """Scores a condition's sealed responses in this process."""
    score_condition(
        paths.benchmark(benchmark),
        paths.responses(model, benchmark, condition),
        paths.evaluation(model, benchmark, condition),
        kind=config.benchmarks[benchmark].kind,
        name=f"{model}/{benchmark}/{condition}",
        workers=0,
    )
