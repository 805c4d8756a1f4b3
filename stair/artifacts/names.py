"""The names of a run's tables, known without the libraries that make them."""

from __future__ import annotations

from collections.abc import Iterable

BY_MODEL = ("turns_", "history_")
"""Prefixes of tables of one model each."""

FIGURES = ("overview",)
"""Figures that follow from response rows alone."""

TRAINING_FIGURE = "training_"
"""Prefix of the figures of training curves, one a model."""

LORA = ("lora_comparison", "lora_turns")
"""Tables of runs with LoRA conditions."""

SHARED_T1 = ("shared_t1", "bank_prefix_accuracy")
"""Tables of the study with a shared T1 history, from rows of its own."""


def table_names(models: Iterable[str], conditions: Iterable[str] = ()) -> list[str]:
    """The tables that follow from the evaluation's response rows alone."""
    return [
        "continuous_summary",
        "native_accuracy",
        "history_correctness_summary",
        "intervals",
        "comparisons",
        *(prefix + model for prefix in BY_MODEL for model in models),
        *(LORA if {"lora", "lora_stair"} & set(conditions) else ()),
    ]
