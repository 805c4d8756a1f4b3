"""The tables stage: from scored rows to CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from stair.artifacts.figures import overview
from stair.artifacts.figures.figure import Figure
from stair.artifacts.labels import Labels
from stair.artifacts.layout import latex, markdown
from stair.artifacts.names import FIGURES, table_names
from stair.artifacts.tables import continuous_summary, history, native_accuracy, turns
from stair.artifacts.tables.table import Table
from stair.artifacts.tidy import tidy_csv
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import write_text
from stair.records.schemas import BENCHMARK
from stair.records.tables import read_table
from stair.scoring.grid import COLUMNS, Responses

BY_MODEL = {"turns_": turns.build, "history_": history.build}
"""Tables of one model each, by the prefix of their names."""


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


def complete_responses(config: Config, paths: RunPaths) -> Responses:
    """A run's scored rows as grids over its benchmarks' problems."""
    problems = {
        benchmark: [row["problem_id"] for row in read_table(paths.benchmark(benchmark), BENCHMARK, ["problem_id"])]
        for benchmark in config.benchmarks
    }
    return Responses.from_frame(scored_rows(config, paths), problems=problems, samples=config.evaluation.samples)


def build(config: Config, paths: RunPaths, name: str) -> Table:
    """One table of a run."""
    responses = complete_responses(config, paths)
    table = assemble(name, responses, Labels.of(config), config)
    if table is None:
        raise ValueError(f"table {name} has no rows in this run")
    return table


def build_figure(config: Config, paths: RunPaths, name: str) -> Figure:
    """One figure of a run."""
    if name not in FIGURES:
        raise ValueError(f"there is no figure '{name}' (there are: {', '.join(FIGURES)})")
    responses = complete_responses(config, paths)
    return overview.build(responses, Labels.of(config), config.overview.models)


def assemble(name: str, responses: Responses, labels: Labels, config: Config) -> Table | None:
    """A table by its name; None where the rows do not give it."""
    if name == "continuous_summary":
        return continuous_summary.build(responses, labels)
    if name == "history_correctness_summary":
        return history.build_pooled(responses, labels)
    if name == "native_accuracy":
        return native_accuracy.build(responses, labels, config.transitions.model, config.transitions.benchmark)
    for prefix, build_for in BY_MODEL.items():
        if name.startswith(prefix):
            return build_for(responses, labels, name.removeprefix(prefix))
    raise ValueError(f"there is no table '{name}' (there are: {', '.join(table_names(config.models))})")


def write(table: Table, labels: Labels, path: Callable[[str], Path]) -> None:
    """Writes a table's three forms."""
    write_text(path(".csv"), tidy_csv(table.artifact, table.values, labels))
    write_text(path(".md"), markdown(table.layout))
    write_text(path(".tex"), latex(table.layout))
