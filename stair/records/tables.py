"""Parquet tables: written whole, in a given schema, the same rows always giving the same bytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stair.records.files import replacing

_ROWS_A_GROUP = 1024
_ROWS_A_BATCH = 64
_BYTES_A_GROUP = 32 << 20
"""Token ids and texts of a row group, about."""

_IDS = pa.list_(pa.int32())

_TEXTS = ("problem", "response")


def write_table(path: Path, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> int:
    """Writes rows in the order given, a row group at a time; returns how many.

    Rows are drawn one by one and never held beyond their group, which has a bounded size. What `rows` raises, at its end
    too, leaves no file: a check of all rows can stand there.

    Raises:
        ValueError: a row lacks a column, has one too many, or holds a value of another type, or null where none may be.
    """
    count, names = 0, set(schema.names)
    # Ids and texts hardly repeat: a dictionary of them would be built and given up for every group.
    repeating = [field.name for field in schema if not pa.types.is_list(field.type) and field.name not in _TEXTS]
    options = dict(compression="zstd", use_dictionary=repeating)
    with replacing(path) as partial, pq.ParquetWriter(partial, schema, **options) as writer:
        for group in _groups(rows, schema):
            for row in group:
                if row.keys() != names:
                    raise ValueError(f"{path}: row {count} has the columns {sorted(row)}, expected {sorted(names)}")
                count += 1
            try:
                columns = []
                for field in schema:
                    values = [row[field.name] for row in group]
                    if not field.nullable and None in values:
                        number = count - len(group) + values.index(None)
                        raise ValueError(f"{path}: row {number} has no value for '{field.name}'")
                    columns.append(_column(values, field.type))
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
                raise ValueError(f"{path}: rows {count - len(group)} to {count - 1}: {error}") from error
    return count


def _groups(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Iterator[list[Mapping[str, Any]]]:
    """Rows in groups of bounded number and size; a function of the rows alone."""
    lists = [field.name for field in schema if pa.types.is_list(field.type)]
    group: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(4 * len(row.get(name) or ()) for name in lists)
        size += len(row.get("response") or "")
        if len(group) == _ROWS_A_GROUP or size >= _BYTES_A_GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as an Arrow array; lists of token ids go by way of machine integers, not one by one."""
    if kind != _IDS or any(not isinstance(value, array | list) for value in values):
        return pa.array(values, kind)
    ids, offsets = array("i"), array("i", [0])
    for value in values:
        ids.extend(value if isinstance(value, array) else array("i", value))
        offsets.append(len(ids))
    buffers = [pa.py_buffer(part) for part in (offsets, ids)]
    flat = pa.Array.from_buffers(pa.int32(), len(ids), [None, buffers[1]])
    return pa.ListArray.from_buffers(kind, len(values), [None, buffers[0]], children=[flat])


def read_table(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Reads a table's rows and holds them to the schema.

    Raises:
        ValueError: the file is absent, is not Parquet, or has other columns.
    """
    rows: list[dict[str, Any]] = _read(path, schema, columns).to_pylist()
    return rows


def _read(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    _check(path, schema)
    try:
        return pq.read_table(path, columns=list(columns) if columns else None)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_unreadable(path, error)) from error


def _check(path: Path, schema: pa.Schema) -> None:
    if not path.is_file():
        raise ValueError(f"{path} does not exist; run the stage that makes it")
    try:
        found = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_unreadable(path, error)) from error
    if not found.equals(schema):
        missing = sorted(set(schema.names) - set(found.names)) or "none missing, another type or order"
        raise ValueError(
            f"{path} does not have the expected columns (missing: {missing}); delete it and run its stage again"
        )


def _unreadable(path: Path, error: Exception) -> str:
    return f"{path} cannot be read as Parquet ({error}); delete it and run its stage again"


def read_ids(path: Path, schema: pa.Schema, names: Sequence[str], column: str) -> Iterator[tuple[Any, ...]]:
    """A table's lists of token ids, each as an `array` behind the values of the columns `names` in its row.

    Rows are read a few at a time: ids as Python numbers would take ten times their space.

    Raises:
        ValueError: as `read_table`.
    """
    _check(path, schema)
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS_A_BATCH, columns=[*names, column]):
                lists = batch.column(column)
                ends = lists.offsets.to_numpy()
                flat = lists.values.to_numpy()
                told = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
                for row, start, end in zip(told, ends[:-1], ends[1:], strict=True):
                    yield *row, array("i", flat[start:end].tobytes())
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_unreadable(path, error)) from error


def iterate_table(path: Path, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """A table's rows, read a few at a time.

    Raises:
        ValueError: as `read_table`.
    """
    _check(path, schema)
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS_A_BATCH):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_unreadable(path, error)) from error


class SavedRows:
    """A table's rows by some of their columns, one made at a time: a row of Python numbers takes ten times a column's space.

    Args:
        path: the table.
        schema: its columns.
        names: the columns that tell rows apart.

    Raises:
        ValueError: as `read_table`.
    """

    def __init__(self, path: Path, schema: pa.Schema, names: Sequence[str]) -> None:
        self.path = path
        self._table = _read(path, schema)
        columns = [self._table[name].to_pylist() for name in names]
        self._numbers = {identity: number for number, identity in enumerate(zip(*columns, strict=True))}

    def __len__(self) -> int:
        return len(self._numbers)

    def get(self, identity: tuple[Any, ...]) -> dict[str, Any] | None:
        """The row with these values of the columns that tell rows apart; None where there is none."""
        number = self._numbers.get(identity)
        if number is None:
            return None
        row: dict[str, Any] = self._table.slice(number, 1).to_pylist()[0]
        return row
