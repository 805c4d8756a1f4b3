"""The comparison stage: the tables and figures of a run, or of a folder of scored rows, beside the paper's values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths, shared_t1
from stair.paper.comparison.compared import Compared, Known, compare
from stair.paper.comparison.comparison_csv import comparison_csv, summary
from stair.paper.comparison.ours import read_ours
from stair.paper.comparison.printed import printed_values
from stair.paper.comparison.run_facts import RunFacts, stand_ins
from stair.paper.from_rows import read_rows
from stair.paper.labels import Labels
from stair.paper.missing import missing_reasons
from stair.paper.table_inputs import evaluated_places, reported_values
from stair.paper.tables.lora import BASES
from stair.records.files import write_text
from stair.statistics.grid import Responses
from stair.statistics.printed_comparison import replication_spreads, shared_t1_spreads, truncated_spreads


def of_run(config: Config, paths: RunPaths) -> list[Compared]:
    """Every printed value beside the run's, from the files of its tables, figures and scored rows."""
    study, files = shared_t1(config, paths)
    rows = [paths.scored(*place) for place in evaluated_places(config)]
    shared = [files.scored(*place) for place in evaluated_places(study)]
    return of_files(config, reported_values(config, paths), rows, shared)


def of_files(config: Config, values: Iterable[Path], rows: Iterable[Path], shared: Iterable[Path]) -> list[Compared]:
    """Every printed value beside those of tidy CSVs.

    Args:
        values: CSVs of tables and figures.
        rows: the evaluation's scored rows, from which intervals of sampled numbers follow.
        shared: scored rows of the study with a shared T1 history.
    """
    responses, _ = read_responses(config, rows)
    study, frame = read_responses(config, shared)
    facts, labels = RunFacts(config, responses, study), Labels.of(config)
    pooled = [key for key, item in config.benchmarks.items() if item.mathematical]
    known = Known(
        replication_spreads(responses, pooled=pooled, gains=BASES),
        shared_t1_spreads(study, labels.name) | truncated_spreads(frame, labels.name),
        facts.stands_in,
        facts.other_problems,
        facts.absent,
    )
    return compare(printed_values(), read_ours(values, config), known)


def write(compared: list[Compared], config: Config, path: Path) -> None:
    """Writes comparison.csv to `path` and the summary beside it."""
    write_text(path, comparison_csv(compared))
    write_text(path.with_suffix(".md"), summary(compared, stand_ins(config), config.note))


def read_responses(config: Config, files: Iterable[Path]) -> tuple[Responses, pd.DataFrame]:
    """Scored rows as grids, and as they are; no files give neither."""
    files = list(files)
    if not files:
        return Responses({}, config.evaluation.samples, {}), pd.DataFrame()
    rows = read_rows(files, config)
    reasons = missing_reasons(files)
    return Responses.from_frame(rows, samples=config.evaluation.samples, reasons=reasons), rows
