"""Reads the columns of a data set from a Parquet, JSONL or CSV file, and chooses a subset of its problems."""

from __future__ import annotations

import codecs
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stair.config.datasets import Subset
from stair.records.seeds import hash_order

_BATCH_ROWS = 16_384

FORMATS = (".parquet", ".jsonl", ".csv")

_EXACT = 2**53
"""Each integer up to this one has a floating-point number of its own."""


def read_columns(path: Path, columns: Mapping[str, str]) -> dict[str, list[Any]]:
    """Reads columns by dotted paths (`reward_model.ground_truth`, `prompt.0.content`), all rows at once.

    Args:
        path: a .parquet, .jsonl or .csv file.
        columns: the path of each column in the file, by its new name.

    Raises:
        ValueError: with the file and the row or column that is missing or malformed.
    """
    values_of: dict[str, list[Any]] = {name: [] for name in columns}
    for batch in stream_columns(path, columns):
        for name, values in batch.items():
            values_of[name] += values
    return values_of


def stream_columns(path: Path, columns: Mapping[str, str]) -> Iterator[dict[str, list[Any]]]:
    """`read_columns` in batches of some ten thousand rows, so that memory does not grow with the file."""
    check_columns(path, columns)
    if path.suffix == ".parquet":
        first = 0
        for batch in _batches(path, sorted({where.split(".")[0] for where in columns.values()})):
            table = pa.Table.from_batches([batch])
            yield {name: _values(_descend(table, where, path, first), where, path) for name, where in columns.items()}
            first += batch.num_rows
        return
    rows = enumerate(_rows(path))
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield {name: [_value(row, where, path, number) for number, row in batch] for name, where in columns.items()}


def count_rows(path: Path) -> int:
    if path.suffix == ".parquet":
        return int(_metadata(path).num_rows)
    if path.suffix == ".csv":
        return sum(1 for _ in _rows(path))
    with open(path, "rb") as lines:
        return sum(1 for line in lines if line.strip())


def as_text(value: Any) -> Any:
    """A number as a person would write it (27.0 is 27); any other value unchanged.

    A floating-point number beyond 2^53 also stays unchanged, because it can differ from the author's.
    """
    if isinstance(value, float) and isfinite(value) and abs(value) <= _EXACT:
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def instead_of_text(value: Any) -> str:
    """A description of a value that is no text after `as_text`, without the value: not every text may be published in logs."""
    if isinstance(value, str | None):
        return "empty"
    if isinstance(value, float):
        return "no number, or one beyond 2^53 that need not be the one that was written; write it as text"
    return f"of type {type(value).__name__}, where a text is expected"


def check_columns(path: Path, columns: Mapping[str, str]) -> None:
    """Checks that a file has the expected columns, reading as little as possible.

    Raises:
        ValueError: the file is absent, of another format, empty, or lacks a column.
    """
    if not path.is_file():
        raise ValueError(f"{path} is a folder, not a file" if path.is_dir() else f"{path} does not exist")
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: files of type '{path.suffix}' cannot be read (known: {', '.join(FORMATS)})")
    names = Counter(_names(path))
    for where in columns.values():
        name = where.split(".")[0]
        if name not in names:
            raise ValueError(f"{path} has no column '{name}' (it has: {', '.join(names)})")
        if names[name] > 1:
            raise ValueError(f"{path}: the column '{name}' occurs {names[name]} times in its header; rename the others")


def _names(path: Path) -> list[str]:
    """The names of a file's columns, with repetitions."""
    if path.suffix == ".parquet":
        return list(_metadata(path).schema.to_arrow_schema().names)
    first = next(iter(_rows(path)), None)
    if first is None:
        raise ValueError(f"{path} has no rows")
    if path.suffix == ".csv":
        with open(path, newline="", encoding="utf-8-sig") as handle:
            return list(csv.DictReader(handle).fieldnames or ())
    return list(first)


def _metadata(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:  # a damaged footer is an OSError
        raise ValueError(f"{path} is not a Parquet file, or is damaged: {error}") from error


def _rows(path: Path) -> Any:
    if path.suffix == ".csv":
        csv.field_size_limit(sys.maxsize)
        try:
            with open(path, newline="", encoding="utf-8-sig") as handle:
                reader = csv.DictReader(handle)
                for row in reader:
                    if None in row or None in row.values():
                        more = "more" if None in row else "fewer"
                        raise ValueError(f"{path}, line {reader.line_num}: {more} cells than the file has columns")
                    yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} cannot be read as CSV: {error}") from error
        return
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}: not valid JSON ({error})") from error
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number}: expected an object with keys, found a {type(row).__name__}")
            yield row


def _value(row: Any, where: str, path: Path, number: int) -> Any:
    value = row
    for part in where.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"{place_of(path, number)}: there is no '{where}'") from error
    return value


def place_of(path: Path, number: int) -> str:
    """Where a row is, with rows counted from 0: the line of a text file, the number of a row of Parquet, which has no lines."""
    if path.suffix == ".parquet":
        return f"{path}, row {number}"
    if path.suffix == ".csv":
        with open(path, newline="", encoding="utf-8-sig") as text:
            reader = csv.DictReader(text)
            next(islice(reader, number, None))
            return f"{path}, line {reader.line_num}"
    with open(path, "rb") as file:
        filled = (count for count, line in enumerate(file, start=1) if line.strip())
        return f"{path}, line {next(islice(filled, number, None))}"


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        batches = file.iter_batches(_BATCH_ROWS, columns=columns)
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                raise ValueError(f"{path} is damaged ({error}); copy or fetch it again") from error
            if batch is None:
                return
            yield batch


def _descend(table: pa.Table, where: str, path: Path, first: int) -> pa.ChunkedArray:
    """The values at a path of names and indices; `first` is the number of the table's first row in the file."""
    parts = where.split(".")
    column = table[parts[0]]
    for part in parts[1:]:
        try:
            column = pc.list_element(column, int(part)) if part.isdigit() else pc.struct_field(column, part)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
            lengths = pc.list_value_length(column).to_pylist() if part.isdigit() and _is_list(column) else []
            short = [row for row, length in enumerate(lengths, first) if length is not None and length <= int(part)]
            row = f", row {short[0]}" if short else ""
            raise ValueError(f"{path}{row}: there is no '{where}' in column '{parts[0]}' ({error})") from error
    return column


def _values(column: pa.ChunkedArray, where: str, path: Path) -> list[Any]:
    if pa.types.is_float32(column.type) or pa.types.is_float16(column.type):
        # 3.1 in single precision is 3.1, not the double 3.0999999046325684.
        return [None if text is None else float(text) for text in pc.cast(column, pa.string()).to_pylist()]
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: column '{where}' holds text that is not UTF-8 ({error})") from error


def _is_list(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_list(column.type) or pa.types.is_large_list(column.type))


def in_subset(problems: Iterable[str], subset: Subset, path: Path, key: str) -> list[str]:
    """The problems (by identity) that a subset keeps: the first by hash under its seed.

    Raises:
        ValueError: there are fewer; the message names the file and the key.
    """
    ordered = hash_order(problems, subset.seed)
    if len(ordered) < subset.problems:
        raise ValueError(
            f"{path}: {len(ordered)} problems remain, fewer than {key}.subset.problems ({subset.problems})"
        )
    return ordered[: subset.problems]
