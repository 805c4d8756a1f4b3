"""How much a turn is given to read: tokens of its prompt, and entries of its bank."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from stair.statistics.values import Value

CONTEXT_COLUMNS = ("prompt_tokens", "bank_tokens")
"""Columns of scored rows that are counted; `bank_tokens` is null where no bank is kept."""

PROMPT, BANK = "prompt tokens, median", "bank entries, median"


def context_sizes(rows: pd.DataFrame) -> Iterator[Value]:
    """Medians over all benchmarks' scored rows, for each model, condition and turn."""
    for (model, condition, turn), group in rows.groupby(["model", "condition", "turn"], sort=False):
        for metric, column, unit in zip((PROMPT, BANK), CONTEXT_COLUMNS, ("tokens", "entries"), strict=True):
            present = group[column].dropna()
            if len(present):
                yield Value(str(model), "", str(condition), f"T{turn}", "", metric, float(present.median()), unit)
