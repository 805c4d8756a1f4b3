"""Parquet tables: written atomically in a given schema; equal rows give equal bytes. A page with a changed bit is an error."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from stair.records.files import replacing

_ROWS_A_GROUP = 1024
_ROWS_A_BATCH = 64
_BYTES_A_GROUP = 32 << 20
"""The approximate size of the token ids and texts of a row group."""

_IDS = pa.list_(pa.int32())

_TEXTS = ("problem", "response")

Row = TypeVar("Row", bound=NamedTuple)


def write_table(path: Path, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> int:
    """Writes rows in the given order, a row group of bounded size at a time; returns their number.

    Only the rows of one group are in memory. If `rows` raises, there is no file.

    Raises:
        ValueError: a row lacks a column or has one too many, or a value has another type or is null against the schema.
    """
    count, names = 0, set(schema.names)
    # Ids and texts hardly repeat: the writer would build a dictionary for every group and drop it.
    repeating = [field.name for field in schema if not pa.types.is_list(field.type) and field.name not in _TEXTS]
    options = dict(compression="zstd", use_dictionary=repeating, write_page_checksum=True)
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
    """Groups of bounded number and size; a function of the rows alone."""
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
    """Values as an Arrow array; lists of token ids are converted as machine integers, not one by one."""
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
    """Reads all rows of a table as mappings. Columns beyond the schema, which an earlier version wrote, are not read.

    Raises:
        ValueError: the file is absent, is not Parquet, or lacks a column of the schema's type.
    """
    rows: list[dict[str, Any]] = _read(path, schema, columns).to_pylist()
    return rows


def _read(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    _check_columns(path, schema)
    try:
        return pq.read_table(path, columns=list(columns or schema.names), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_unreadable(path, error)) from error


def _check_columns(path: Path, schema: pa.Schema) -> None:
    if not path.is_file():
        raise ValueError(f"{path} does not exist; run the stage that makes it")
    try:
        actual = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_unreadable(path, error)) from error
    if missing := [each.name for each in schema if each.name not in actual.names or actual.field(each.name) != each]:
        raise ValueError(
            f"{path} lacks columns, or has them in another type: {', '.join(missing)}; delete it and run its stage again"
        )


def _unreadable(path: Path, error: Exception) -> str:
    return f"{path} cannot be read as Parquet ({error}); delete it and run its stage again"


def rows_as(path: Path, schema: pa.Schema, row_type: type[Row]) -> Iterator[Row]:
    """The rows of a table as NamedTuples, read a few at a time; only the columns that the type names are read.

    Lists of token ids become an `array`: as Python numbers they would need ten times the space.

    Raises:
        ValueError: as `read_table`.
    """
    names = list(row_type._fields)
    for batch in _batches(path, schema, names):
        yield from map(row_type._make, zip(*(_values(batch.column(name)) for name in names), strict=True))


def _values(column: pa.Array) -> list[Any]:
    if column.type != _IDS:
        values: list[Any] = column.to_pylist()
        return values
    ends, flat = column.offsets.to_numpy(), column.values.to_numpy()
    return [array("i", flat[start:end].tobytes()) for start, end in pairwise(ends)]


def iterate_table(path: Path, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """The rows of a table as mappings, read a few at a time.

    Raises:
        ValueError: as `read_table`.
    """
    for batch in _batches(path, schema):
        yield from batch.to_pylist()


def _batches(path: Path, schema: pa.Schema, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    _check_columns(path, schema)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield from file.iter_batches(_ROWS_A_BATCH, columns=columns or schema.names)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_unreadable(path, error)) from error


class SavedRows:
    """The rows of a table by the values of the columns `names`. A row is converted on request: Python numbers need ten times the
    space.

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
        """The row with these values; None without one."""
        number = self._numbers.get(identity)
        if number is None:
            return None
        row: dict[str, Any] = self._table.slice(number, 1).to_pylist()[0]
        return row
