"""Columns by dotted paths from Parquet, JSONL and CSV; errors that name file and row."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stair.records.tables import read_table
from stair.stages.data.reading import count_rows, read_columns

ROWS: list[dict[str, Any]] = [
    {"prompt": [{"content": "first", "role": "user"}], "reward": {"truth": "1", "deep": {"x": 1}}, "plain": "a"},
    {
        "prompt": [{"content": "zweite\nZeile", "role": "user"}],
        "reward": {"truth": "2", "deep": {"x": 2}},
        "plain": 'b,"c',
    },
]
WANTED = {"problem": "prompt.0.content", "answer": "reward.truth", "deep": "reward.deep.x", "id": "plain"}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A file in the format that its ending names."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with open(path, "w", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_nested_columns(tmp_path: Path, suffix: str) -> None:
    found = read_columns(write(tmp_path / f"data{suffix}", ROWS), WANTED)
    assert found == {
        "problem": ["first", "zweite\nZeile"],
        "answer": ["1", "2"],
        "deep": [1, 2],
        "id": ["a", 'b,"c'],
    }
    assert list(found) == list(WANTED)


def test_csv(tmp_path: Path) -> None:
    rows = [{"Question": row["prompt"][0]["content"], "Correct Answer": row["plain"]} for row in ROWS]
    found = read_columns(write(tmp_path / "data.csv", rows), {"problem": "Question", "answer": "Correct Answer"})
    assert found == {"problem": ["first", "zweite\nZeile"], "answer": ["a", 'b,"c']}


def test_empty_lines_of_jsonl_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"a": 2}')
    assert read_columns(path, {"x": "a"}) == {"x": [1, 2]}


@pytest.mark.parametrize(
    ("content", "where", "message"),
    [
        ('{"a": {"b": 1}}\n{"a": {}}\n', "a.b", "line 2: there is no 'a.b'"),
        ('{"a": [1]}\n{"a": []}\n', "a.0", "line 2: there is no 'a.0'"),
        ('{"a": [1]}\n', "a.b", "line 1: there is no 'a.b'"),
        ('{"a": "text"}\n', "a.b", "line 1: there is no 'a.b'"),
        ('{"a": 1}\n\n{"b": 1}\n', "a", "line 3: there is no 'a'"),
        ('{"a": 1}\n', "c", "has no column 'c' (it has: a)"),
        ('{"a": 1}\n{"a": \n', "a", "line 2: not valid JSON"),
        ('{"a": 1}\n[1]\n', "a", "line 2: expected an object with keys, found a list"),
        ("\n", "a", "has no rows"),
    ],
)
def test_a_fault_in_jsonl_names_file_and_row(tmp_path: Path, content: str, where: str, message: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"data\.jsonl") as caught:
        read_columns(path, {"x": where})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    for suffix in (".csv", ".jsonl"):
        path = write(tmp_path / f"data{suffix}", [{"Question": "x"}, {"Question": "y"}])
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert read_columns(path, {"problem": "Question"}) == {"problem": ["x", "y"]}


def test_rows_are_counted_before_they_are_read(tmp_path: Path) -> None:
    rows = [{"a": "one\ntwo"}, {"a": "three"}, {"a": "four"}]
    for suffix in (".parquet", ".jsonl", ".csv"):
        assert count_rows(write(tmp_path / f"data{suffix}", rows)) == 3


def test_a_csv_row_with_more_cells_than_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2\n3,4,5\n")
    with pytest.raises(ValueError, match=r"data\.csv, line 3: more cells than the file has columns"):
        read_columns(path, {"x": "a"})
    path.write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"data\.csv, line 3: fewer cells than the file has columns"):
        read_columns(path, {"x": "a"})


def test_a_wanted_column_stands_once(tmp_path: Path) -> None:
    csv = tmp_path / "data.csv"
    csv.write_text("a,b,b,,\n1,2,3,,\n")
    parquet = tmp_path / "data.parquet"
    pq.write_table(pa.table([["1"], ["2"], ["3"]], names=["a", "b", "b"]), parquet)
    for path in (csv, parquet):
        assert read_columns(path, {"x": "a"}) == {"x": ["1"]}, "others do not matter"
        with pytest.raises(ValueError, match=rf"{path.name}: the column 'b' occurs 2 times in its header"):
            read_columns(path, {"x": "b"})


def test_text_in_parquet_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    text = pa.StringArray.from_buffers(1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff"))
    pq.write_table(pa.table({"a": text}), path)
    with pytest.raises(ValueError, match=r"data\.parquet: column 'a' holds text that is not UTF-8"):
        read_columns(path, {"x": "a"})


def test_damage_to_metadata_is_named_too(tmp_path: Path) -> None:
    """In its metadata or in its rows; as a data set and as a table of the run."""
    schema = pa.schema([("a", pa.string())])
    whole = write(tmp_path / "data.parquet", [{"a": f"text {n} " * 9} for n in range(500)]).read_bytes()
    path = tmp_path / "other.parquet"
    for start in (4, 40, len(whole) - 60, len(whole) - 200):
        path.write_bytes(whole[:start] + bytes(b ^ 0x5A for b in whole[start : start + 40]) + whole[start + 40 :])
        with pytest.raises(ValueError, match=r"other\.parquet"):
            read_columns(path, {"x": "a"})
        with pytest.raises(ValueError, match=r"other\.parquet"):
            read_table(path, schema)
    path.write_bytes(whole[:-9])
    with pytest.raises(ValueError, match=r"other\.parquet"):
        count_rows(path)


def test_an_empty_list_in_parquet_is_named_by_its_row(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    schema = pa.schema([("prompt", pa.list_(pa.struct([("content", pa.string())])))])
    lists: list[Any] = [[{"content": "x"}]] * 20_000
    lists[17_000] = []
    pq.write_table(pa.table({"prompt": lists}, schema=schema), path)
    with pytest.raises(ValueError, match=r"data\.parquet, row 17000: there is no 'prompt\.0\.content'"):
        read_columns(path, {"x": "prompt.0.content"})


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "data.parquet", [{"a": f"text {number}"} for number in range(5000)])
    whole = bytearray(path.read_bytes())
    whole[100:2000] = bytes(1900)
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"data\.parquet is damaged .*; copy or fetch it again"):
        read_columns(path, {"x": "a"})


@pytest.mark.parametrize("where", ["prompt.0.text", "prompt.7.content", "reward.0", "reward.truth.more", "nothing"])
def test_a_fault_in_parquet_names_file_and_column(tmp_path: Path, where: str) -> None:
    path = write(tmp_path / "data.parquet", ROWS)
    with pytest.raises(ValueError, match=r"data\.parquet") as caught:
        read_columns(path, {"x": where})
    assert where.split(".")[0] in str(caught.value)
