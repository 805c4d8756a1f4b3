"""The names of a run's tables, known without the libraries that make them."""

from __future__ import annotations

from collections.abc import Iterable

BY_MODEL = ("turns_", "history_")
"""Prefixes of tables of one model each."""

FIGURES = ("overview",)
"""Figures that follow from response rows alone."""


def table_names(models: Iterable[str]) -> list[str]:
    """The tables that follow from response rows alone."""
    return [
        "continuous_summary",
        "native_accuracy",
        "history_correctness_summary",
        *(prefix + model for prefix in BY_MODEL for model in models),
    ]
