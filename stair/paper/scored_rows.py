"""Scored rows as tables, figures, comparison and claims read them: of a run, or of any folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import EVALUATION, SECTIONS, SHARED_T1
from stair.paper.exhibits import evaluated_places
from stair.records.files import matching
from stair.records.manifest import missing_responses
from stair.statistics.context_sizes import CONTEXT_COLUMNS
from stair.statistics.grid import COLUMNS, Reasons, Responses, TurnKey

_FURTHER = ("seed", "verdict", *CONTEXT_COLUMNS)
"""Columns that rows of other origin may lack."""


def find_rows(folder: Path) -> tuple[list[Path], list[Path]]:
    """The scored files of a folder: below `evaluation/` and `shared_t1/`, or `<model>/<benchmark>/<condition>.parquet` itself.

    The latter are rows of the evaluation, except in a folder `shared_t1`.

    Returns:
        Files of the evaluation, and files of the study with a shared T1 history.

    Raises:
        ValueError: there are none.
    """
    parts = [folder / name for name in SECTIONS]
    if not any(part.is_dir() for part in parts):
        parts[folder.resolve().name == SHARED_T1] = folder
    evaluation, shared = (matching(part, "*/*/*.parquet") for part in parts)
    if not evaluation and not shared:
        what = "has no response rows" if folder.is_dir() else "is not a folder"
        raise ValueError(
            f"{folder} {what}; give the folder that contains evaluation/<model>/<benchmark>/<condition>.parquet, for example "
            "a run's folder (results/tiny)"
        )
    return evaluation, shared


def scored_files(config: Config, paths: RunPaths) -> tuple[list[Path], list[Path]]:
    """The scored files of a run: of the evaluation, and of the study with a shared T1 history."""
    evaluation, shared = (
        [paths.scored(*place.of(study)) for place in evaluated_places(config, study)] for study in SECTIONS
    )
    return evaluation, shared


def read_rows(
    files: Sequence[Path],
    config: Config,
    problems: Mapping[str, Collection[str]] | None = None,
    study: str = EVALUATION,
) -> tuple[Responses, pd.DataFrame]:
    """Scored rows of a study as grids, and as they are: in the configuration's order, then those of other names.

    `problems` as for `Responses.from_frame`.

    Raises:
        ValueError: a file cannot be read, lacks a column, or holds rows of another model, benchmark or condition.
    """
    orders = [list(config.models), list(config.benchmarks), list(config.conditions_of(study))]

    def rank(path: Path) -> list[tuple[int, str]]:
        return [
            (names.index(key) if key in names else len(names), key)
            for names, key in zip(orders, _place(path), strict=True)
        ]

    frames = [_read(path) for path in sorted(files, key=rank)]
    if not frames:
        return Responses({}, config.evaluation.samples, {}), pd.DataFrame(columns=[*COLUMNS, *_FURTHER])
    rows, samples = pd.concat(frames, ignore_index=True), config.evaluation.samples
    return Responses.from_frame(rows, problems=problems, samples=samples, reasons=_reasons(files)), rows


def _place(path: Path) -> tuple[str, str, str]:
    """The model, benchmark and condition of a file of scored rows."""
    return path.parent.parent.name, path.parent.name, path.stem


def _read(path: Path) -> pd.DataFrame:
    try:
        there = pq.read_schema(path).names
        frame = pd.read_parquet(path, columns=[name for name in (*COLUMNS, *_FURTHER) if name in there])
    except (OSError, pa.ArrowException) as error:
        raise ValueError(
            f"{path} cannot be read as Parquet ({error}); restore it, or remove it from the folder"
        ) from error
    if missing := [column for column in COLUMNS if column not in there]:
        raise ValueError(
            f"{path} lacks the columns {', '.join(missing)}; scored rows are needed, as `stair reproduce --target scores` "
            "writes them to evaluation/"
        )
    for column, name in zip(COLUMNS, _place(path), strict=False):
        other = frame.loc[frame[column] != name, column]
        if len(other):
            raise ValueError(f"{path}: rows of the {column} '{other.iloc[0]}' are in the file of '{name}'")
    return frame


def _reasons(files: Sequence[Path]) -> Reasons:
    """Why responses are missing, from the manifests beside the rows; a file without a manifest gives no reason."""
    reasons: Reasons = {}
    for file in files:
        for gap in missing_responses(file):
            key = TurnKey(*_place(file), gap["turn"])
            reasons.setdefault(key, {})[gap["problem_id"], gap["sample"]] = gap["reason"]
    return reasons
