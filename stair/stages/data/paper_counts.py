"""The paper's counts of its training data, beside which the report lists a run's."""

from __future__ import annotations

PROBLEMS = {"training_problems": 14_806, "validation_problems": 128, "problems_left": 14_934}
"""The counts of each model (appendix B.4)."""

UPDATES = {"qwen3-4b-instruct": 1851, "qwen3.5-4b": 1941, "qwen3.5-9b": 1940}
"""Scheduled updates of eight sessions by model (appendix C.1)."""

BENCHMARK_PROBLEMS = {"math500": 500, "aime2025": 30, "amc23": 34, "gpqa_diamond": 198}
"""Problems that are evaluated (appendix C.3)."""

LEFT_OUT = {"amc23": ("3", "15", "16", "19", "30", "32")}
"""Problems in all three training pools by normalised text, which the paper leaves out (appendix C.3)."""

_SESSIONS = 8


def training_records(model: str) -> str | None:
    """The number of training records that a model's update count implies: a session for each record, eight sessions an update."""
    if model not in UPDATES:
        return None
    most = _SESSIONS * UPDATES[model]
    return f"{max(most - _SESSIONS + 1, PROBLEMS['training_problems']):,} to {most:,}"
