"""Parquet tables: written whole, in a given schema, the same rows always giving the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stair.records.files import replacing

_ROWS_A_GROUP = 1024


def write_table(path: Path, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> int:
    """Writes rows in the order given, a row group at a time; returns how many.

    Raises:
        ValueError: a row lacks a column, has one too many, or holds a value of another type, or null where none may be.
    """
    count, iterator, names = 0, iter(rows), set(schema.names)
    with replacing(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        while group := list(islice(iterator, _ROWS_A_GROUP)):
            for row in group:
                if row.keys() != names:
                    raise ValueError(f"{path}: row {count} has the columns {sorted(row)}, expected {sorted(names)}")
                for field in schema:
                    if row[field.name] is None and not field.nullable:
                        raise ValueError(f"{path}: row {count} has no value for '{field.name}'")
                count += 1
            try:
                writer.write_table(pa.Table.from_pylist([dict(row) for row in group], schema=schema))
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise ValueError(f"{path}: rows {count - len(group)} to {count - 1}: {error}") from error
    return count


def read_table(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Reads a table's rows and holds them to the schema.

    Raises:
        ValueError: the file is absent, is not Parquet, or has other columns.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist; run the stage that makes it")
    try:
        found = pq.read_schema(path)
        if not found.equals(schema):
            missing = sorted(set(schema.names) - set(found.names)) or "none missing, another type or order"
            raise ValueError(
                f"{path} does not have the expected columns (missing: {missing}); delete it and run its stage again"
            )
        return pq.read_table(path, columns=list(columns) if columns else None).to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as Parquet ({error}); delete it and run its stage again") from error
