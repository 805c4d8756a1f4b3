"""Every table that follows from response rows alone, from a folder of scored rows; no other stage is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from stair.artifacts.labels import Labels
from stair.artifacts.names import table_names
from stair.artifacts.stage import assemble, write
from stair.artifacts.tables.table import Table
from stair.config.model import Config
from stair.scoring.grid import COLUMNS, Gap, Responses


def find_rows(folder: Path) -> list[Path]:
    """The scored files of a folder: below `evaluation/`, or laid out as `<model>/<benchmark>/<condition>.parquet`.

    Raises:
        ValueError: there are none.
    """
    root = folder / "evaluation" if (folder / "evaluation").is_dir() else folder
    found = sorted(root.glob("*/*/*.parquet"))
    if not found:
        raise ValueError(
            f"{folder} holds no response rows: expected evaluation/<model>/<benchmark>/<condition>.parquet"
        )
    return found


def read_rows(paths: Sequence[Path], order: Config) -> pd.DataFrame:
    """Rows of all files; models, benchmarks and conditions in the configuration's order, unknown ones after them.

    Raises:
        ValueError: a file cannot be read, lacks a column, or holds rows of another model, benchmark or condition.
    """
    known = [list(order.models), list(order.benchmarks), list(order.conditions)]

    def rank(path: Path) -> list[tuple[int, str]]:
        keys = (path.parent.parent.name, path.parent.name, path.stem)
        return [(names.index(key) if key in names else len(names), key) for names, key in zip(known, keys, strict=True)]

    frames = []
    for path in sorted(paths, key=rank):
        try:
            frame = pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
        missing = [column for column in COLUMNS if column not in frame.columns]
        if missing:
            raise ValueError(f"{path} lacks the columns {', '.join(missing)}")
        for column, name in (
            ("model", path.parent.parent.name),
            ("benchmark", path.parent.name),
            ("condition", path.stem),
        ):
            other = frame.loc[frame[column] != name, column]
            if len(other):
                raise ValueError(f"{path}: rows of the {column} '{other.iloc[0]}' stand in the file of '{name}'")
        frames.append(frame[[*COLUMNS, *(["seed"] if "seed" in frame.columns else [])]])
    return pd.concat(frames, ignore_index=True)


def tables_from(folder: Path, out: Path, order: Config) -> tuple[list[Table], list[str]]:
    """Writes every table that the rows give to `out`.

    Args:
        folder: the rows.
        out: where the tables go, made if absent.
        order: a configuration that names labels, orders and the pooled benchmarks; keys that it does not know label themselves.

    Returns:
        The tables, and the reasons of all gaps in them.
    """
    responses = Responses.from_frame(read_rows(find_rows(folder), order), samples=order.evaluation.samples)
    labels = Labels.of(order)
    tables = [table for name in table_names(responses.models) if (table := assemble(name, responses, labels, order))]
    for table in tables:
        write(table, labels, lambda suffix, name=table.name: out / f"{name}{suffix}")  # type: ignore[misc]
    gaps = dict.fromkeys(
        value.value.reason for table in tables for value in table.values if isinstance(value.value, Gap)
    )
    return tables, list(gaps)
