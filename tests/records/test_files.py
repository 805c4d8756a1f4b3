"""Files are whole or absent; tables hold their schema; the same rows have the same bytes."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stair.records.files import read_mapping, replacing, write_text_if_changed
from stair.records.progress import Progress, duration, read_progress
from stair.records.rows import BenchmarkProblem, Rollout, ScheduledTurn, SourceRecord, TrainingTurn
from stair.records.schemas import (
    BENCHMARK,
    EVALUATION_SESSIONS,
    RESPONSES,
    ROLLOUTS,
    SCORED,
    TRAINING_POOL,
    TRAINING_SESSIONS,
)
from stair.records.tables import SavedRows, iterate_table, read_table, rows_as, write_table

SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("ids", pa.list_(pa.int32()), nullable=False),
        pa.field("answer", pa.string()),
    ]
)


class Named(NamedTuple):
    ids: array[int]
    name: str


ROWS: list[dict[str, Any]] = [
    {"name": "a", "ids": [1, 2], "answer": None},
    {"name": "b", "ids": [], "answer": "7"},
]


def interrupted(path: Path) -> None:
    with replacing(path) as partial:
        partial.write_text("half of the n")
        raise KeyboardInterrupt


def test_the_old_file_stays_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    with replacing(path) as partial:
        partial.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_text() == "old"
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old", "until it is whole, readers see the old file"
    assert path.read_text() == "new"
    assert [each.name for each in path.parent.iterdir()] == ["file.txt"], "nothing is left beside it"


def test_a_file_that_was_never_written_is_an_error_and_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "old"


def test_an_unchanged_text_keeps_its_time(tmp_path: Path) -> None:
    path = tmp_path / "text"
    assert write_text_if_changed(path, "a")
    before = path.stat().st_mtime_ns
    assert not write_text_if_changed(path, "a")
    assert path.stat().st_mtime_ns == before
    assert write_text_if_changed(path, "b")
    assert path.read_text() == "b"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1,', "is not valid JSON ("),
        ("[1]", "must hold keys and values, not a list"),
        ("", "is not valid JSON ("),
    ],
)
def test_a_damaged_json_file_is_named_with_the_remedy(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "facts.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(f"{path} {problem}")) as caught:
        read_mapping(path)
    assert str(caught.value).endswith("; restore the file, or delete it and run the command that makes it again")
    path.write_text('{"a": 1}')
    assert read_mapping(path) == {"a": 1}


def test_a_table_comes_back_and_the_same_rows_have_the_same_bytes(tmp_path: Path) -> None:
    rows = [{"name": str(number), "ids": [number] * (number % 5), "answer": None} for number in range(3000)]
    assert write_table(tmp_path / "a.parquet", SCHEMA, rows) == 3000
    assert read_table(tmp_path / "a.parquet", SCHEMA) == rows
    assert read_table(tmp_path / "a.parquet", SCHEMA, ["name"]) == [{"name": row["name"]} for row in rows]
    assert [*rows_as(tmp_path / "a.parquet", SCHEMA, Named)] == [
        Named(array("i", row["ids"]), row["name"]) for row in rows
    ]
    write_table(tmp_path / "b.parquet", SCHEMA, iter([dict(reversed(row.items())) for row in rows]))
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_groups_of_rows_are_bounded_by_their_size(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for number in range(6):
            yield {"name": str(number), "ids": array("i", [number]) * 3_000_000, "answer": None}

    path = tmp_path / "a.parquet"
    assert write_table(path, SCHEMA, rows()) == 6
    groups = pq.ParquetFile(path).metadata
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [3, 3]
    assert pq.read_table(path)["ids"][5].as_py()[-1] == 5


def test_what_rows_raise_at_their_end_leaves_no_file(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from ROWS
        raise ValueError("a check of all rows failed")

    with pytest.raises(ValueError, match="a check of all rows failed"):
        write_table(tmp_path / "a.parquet", SCHEMA, rows())
    assert list(tmp_path.iterdir()) == []


def test_saved_rows_are_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [{"name": str(number), "ids": [number] * (number % 5), "answer": None} for number in range(3000)]
    write_table(path, SCHEMA, rows)
    saved = SavedRows(path, SCHEMA, ("name", "answer"))
    assert len(saved) == 3000
    assert [saved.get((row["name"], None)) for row in rows] == rows
    assert saved.get(("3000", None)) is None
    with pytest.raises(ValueError, match="does not exist"):
        SavedRows(tmp_path / "b.parquet", SCHEMA, ("name",))


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    assert write_table(tmp_path / "a.parquet", SCHEMA, []) == 0
    assert read_table(tmp_path / "a.parquet", SCHEMA) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "c", "ids": []}, r"row 2 has the columns \['ids', 'name'\], expected"),
        ({"name": "c", "ids": [], "answer": None, "more": 1}, "row 2 has the columns"),
        ({"name": None, "ids": [], "answer": None}, "row 2 has no value for 'name'"),
        ({"name": "c", "ids": None, "answer": None}, "row 2 has no value for 'ids'"),
        ({"name": 5, "ids": [], "answer": None}, "rows 0 to 2"),
        ({"name": "c", "ids": ["x"], "answer": None}, "rows 0 to 2"),
        ({"name": "c", "ids": [2**40], "answer": None}, "rows 0 to 2"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_and_leaves_no_file(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(ValueError, match=message) as caught:
        write_table(path, SCHEMA, [*ROWS, row])
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_other_columns_is_refused_on_reading(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(ValueError, match=r"t\.parquet does not exist; run the stage that makes it"):
        read_table(path, SCHEMA)
    pq.write_table(pa.Table.from_pylist([{"name": "a"}]), path)
    with pytest.raises(ValueError, match=r"lacks columns, or has them in another type: name, ids, answer; delete it"):
        read_table(path, SCHEMA)
    write_table(path, EVALUATION_SESSIONS, [{"session_id": "s", "turn": 1, "problem_id": "p"}])
    with pytest.raises(ValueError, match="lacks columns"):
        read_table(path, SCHEMA)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_table(path, EVALUATION_SESSIONS)
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        next(rows_as(path, SCHEMA, Named))


def test_a_column_of_an_earlier_version_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    former = pa.schema([*SCHEMA, pa.field("former", pa.int32())])
    write_table(path, former, [row | {"former": 1} for row in ROWS])
    assert read_table(path, SCHEMA) == ROWS
    assert list(iterate_table(path, SCHEMA)) == ROWS


def test_a_changed_bit_of_a_table_changes_no_row(tmp_path: Path) -> None:
    path, rows = (
        tmp_path / "t.parquet",
        [{"name": "a" * 40 + str(i), "answer": str(i), "ids": [i] * 30} for i in range(40)],
    )
    write_table(path, SCHEMA, rows)
    sound, refused = path.read_bytes(), 0
    for place in range(0, 8 * len(sound), 61):
        changed = bytearray(sound)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        for read in (read_table, lambda *file: [*iterate_table(*file)]):
            try:
                assert read(path, SCHEMA) == rows
            except ValueError:
                refused += 1
    assert refused > len(sound) / 20


def test_typed_rows_have_the_columns_of_their_tables() -> None:
    assert list(BenchmarkProblem._fields) == BENCHMARK.names
    assert list(SourceRecord._fields) == TRAINING_POOL.names
    assert list(ScheduledTurn._fields) == EVALUATION_SESSIONS.names
    assert list(TrainingTurn._fields) == TRAINING_SESSIONS.names
    assert set(Rollout._fields) < set(ROLLOUTS.names)


def test_the_columns_that_users_rely_on() -> None:
    turn = ["model", "benchmark", "condition", "session_id", "turn", "sample", "problem_id"]
    drawn = ["seed", "prompt_tokens", "response_tokens", "response", "finish_reason"]
    assert SCORED.names == [*turn, *drawn, "bank_tokens", "beyond_context", "answer", "verdict", "correct"]
    assert RESPONSES.names[: len(turn) + len(drawn)] == [*turn, *drawn]
    proof = {"prompt_ids_sha256", "response_ids", "engine", "engine_version", "attention", "dtype", "device"}
    bank = {"history_retokenised", "bank_tokens", "bank_sha256", "bank_source", "controlled_tokens", "readout_norm"}
    assert proof | bank <= set(RESPONSES.names)
    assert proof | {"record_id", "problem_id", "sample"} <= set(ROLLOUTS.names)
    assert {field.name for field in SCORED if field.nullable} == {"bank_tokens", "beyond_context", "answer"}


def test_progress_counts_from_what_was_done_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(tmp_path, "evaluation/m/b/c/0", total=10, unit="responses", done=4)
    assert progress.line().startswith("evaluation/m/b/c/0: 4 of 10 responses (40%) after 0s")
    assert "left" not in progress.line(), "nothing was measured yet"
    progress.advance(2, note="50 tokens/s")
    assert "6 of 10" in progress.line()
    assert " left · 50 tokens/s" in progress.line()
    progress.set(10)
    written = read_progress(progress.path)
    assert written is not None
    assert (written.done, written.total, written.unit, written.fresh) == (10, 10, "responses", 6)
    assert written.seconds_left == 0.0
    assert read_progress(tmp_path / "absent.json") is None
    assert "10 of 10 responses (100%)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.4, "59s"), (59.6, "1m00s"), (200, "3m20s"), (3600, "1h00m"), (7530, "2h05m")]
)
def test_seconds_as_a_person_says_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
