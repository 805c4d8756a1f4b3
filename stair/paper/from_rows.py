"""Every table that follows from response rows alone, from a folder of scored rows; no other stage is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import SHARED_T1_STUDY
from stair.paper.labels import Labels
from stair.paper.missing import missing_reasons
from stair.paper.registry import Source, table_builder
from stair.paper.stage import assemble, places_of, trained_parameters, with_time_outs, write
from stair.paper.table_inputs import SHARED_T1, tables
from stair.paper.tables.table import Table
from stair.statistics.grid import COLUMNS, Responses


def find_rows(folder: Path) -> tuple[list[Path], list[Path]]:
    """The scored files of a folder: below `evaluation/` and `shared_t1/`, or `<model>/<benchmark>/<condition>.parquet` itself.

    Returns:
        Files of the evaluation, and files of the study with a shared T1 history.

    Raises:
        ValueError: there are none.
    """
    parts = [folder / name for name in ("evaluation", SHARED_T1_STUDY)]
    if not any(part.is_dir() for part in parts):
        parts[0] = folder
    evaluation, shared = (sorted(part.glob("*/*/*.parquet")) for part in parts)
    if not evaluation and not shared:
        what = "has no response rows" if folder.is_dir() else "is not a folder"
        raise ValueError(
            f"{folder} {what}; give the folder that contains evaluation/<model>/<benchmark>/<condition>.parquet, for example "
            "a run's folder (results/tiny)"
        )
    return evaluation, shared


def read_rows(paths: Sequence[Path], order: Config) -> pd.DataFrame:
    """Rows of all files; models, benchmarks and conditions in the configuration's order, unknown ones after them.

    Raises:
        ValueError: a file cannot be read, lacks a column, or holds rows of another model, benchmark or condition.
    """
    orders = [list(order.models), list(order.benchmarks), list(order.conditions)]

    def rank(path: Path) -> list[tuple[int, str]]:
        keys = (path.parent.parent.name, path.parent.name, path.stem)
        return [
            (names.index(key) if key in names else len(names), key) for names, key in zip(orders, keys, strict=True)
        ]

    frames = []
    for path in sorted(paths, key=rank):
        try:
            frame = pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path} cannot be read as Parquet ({error}); restore it, or remove it from the folder"
            ) from error
        missing = [column for column in COLUMNS if column not in frame.columns]
        if missing:
            raise ValueError(
                f"{path} lacks the columns {', '.join(missing)}; scored rows are needed, as `stair reproduce --target scores` "
                "writes them to evaluation/"
            )
        for column, name in (
            ("model", path.parent.parent.name),
            ("benchmark", path.parent.name),
            ("condition", path.stem),
        ):
            other = frame.loc[frame[column] != name, column]
            if len(other):
                raise ValueError(f"{path}: rows of the {column} '{other.iloc[0]}' are in the file of '{name}'")
        frames.append(
            frame[[*COLUMNS, *(name for name in ("seed", "bank_tokens", "verdict") if name in frame.columns)]]
        )
    return pd.concat(frames, ignore_index=True)


def tables_from(folder: Path, out: Path, order: Config) -> list[Table]:
    """Writes every table that the rows give to `out`.

    Args:
        folder: the rows; where it is a run's folder, its controllers say how many parameters were trained.
        out: where the tables go, made if absent.
        order: a configuration that names labels, orders and the pooled benchmarks; keys that it does not know label themselves.
    """
    evaluation, shared = find_rows(folder)
    written: list[Table] = []

    def append(tables: Iterable[Table | None], rows: pd.DataFrame, labels: Labels) -> None:
        for table in (with_time_outs(table, rows) for table in tables if table is not None):
            write(table, labels, lambda suffix, name=table.name: out / f"{name}{suffix}")  # type: ignore[misc]
            written.append(table)

    if evaluation:
        labels, rows = Labels.of(order), read_rows(evaluation, order)
        responses = Responses.from_frame(rows, samples=order.evaluation.samples, reasons=missing_reasons(evaluation))
        trained = trained_parameters(order, RunPaths(folder))
        names = tables(order, places_of(responses), responses.models)
        append([assemble(name, responses, labels, order, trained) for name in names], rows, labels)
    if shared:
        study = order if order.controls is None else order.shared_t1()
        labels, rows = Labels.of(study), read_rows(shared, study)
        responses = Responses.from_frame(rows, samples=study.evaluation.samples, reasons=missing_reasons(shared))
        source = Source(responses, labels, study, rows=rows)
        append([table_builder(name).build(source) for name in SHARED_T1], rows, labels)
    return written
