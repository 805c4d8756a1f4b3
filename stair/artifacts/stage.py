"""The tables stage: from scored rows to CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from stair.artifacts.labels import Labels
from stair.artifacts.layout import latex, markdown
from stair.artifacts.tables import continuous_summary
from stair.artifacts.tables.table import Table
from stair.artifacts.tidy import tidy_csv
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import write_text
from stair.scoring.grid import COLUMNS, Responses

BUILDERS: dict[str, Callable[[Responses, Labels], Table | None]] = {"continuous_summary": continuous_summary.build}
"""Tables that follow from response rows alone, by name."""


def scored_rows(config: Config, paths: RunPaths) -> pd.DataFrame:
    """All scored rows of a run's evaluation, in the order of the configuration."""
    frames = [
        pd.read_parquet(paths.evaluation(model, benchmark, condition), columns=[*COLUMNS, "seed", "verdict"])
        for model in config.models
        for benchmark in config.benchmarks
        for condition in config.conditions
        if (model, benchmark) in config.evaluated(condition)
    ]
    return pd.concat(frames, ignore_index=True)


def build(config: Config, paths: RunPaths, name: str) -> Table:
    """One table of a run."""
    responses = Responses.from_frame(scored_rows(config, paths), samples=config.evaluation.samples)
    table = BUILDERS[name](responses, Labels.of(config))
    if table is None:
        raise ValueError(f"table {name} has no rows in this run")
    return table


def write(table: Table, labels: Labels, path: Callable[[str], Path]) -> None:
    """Writes a table's three forms."""
    write_text(path(".csv"), tidy_csv(table.artifact, table.values, labels))
    write_text(path(".md"), markdown(table.layout))
    write_text(path(".tex"), latex(table.layout))
