"""The work log: what was finished is found again, whatever ended the writer."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import zlib
from array import array
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stair.records.worklog import WorkLog, WorkLogWriter

RECORDS: list[tuple[str, dict[str, Any]]] = [
    ("first", {"response": 'zwei\nZeilen und "Zeichen" \x00 \u2028', "ids": [1, 2, 3], "segment": None}),
    ("second", {"response": "", "ids": [], "norm": 0.1}),
    ("third", {"response": "é" * 40, "ids": list(range(40)), "nested": {"a": [True, None]}}),
]


def write(folder: Path, records: list[tuple[str, dict[str, Any]]], writer: str = "shard-0-of-1") -> Path:
    with WorkLogWriter(folder, writer) as log:
        for key, record in records:
            log.append(key, record)
    return log.path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    log = WorkLog(tmp_path)
    assert dict(log.items()) == dict(RECORDS)
    assert list(log.keys()) == [key for key, _ in RECORDS]
    assert (len(log), log.get("absent"), "first" in log, "absent" in log) == (3, None, True, False)
    assert log.counts.problems() == ""
    assert log.counts.records == 3


def test_the_line_is_what_the_module_says(tmp_path: Path) -> None:
    line = write(tmp_path, RECORDS[:1]).read_bytes()
    checksum, length, payload = line[:8], line[9:17], line[18:-1]
    assert (int(checksum, 16), int(length, 16)) == (zlib.crc32(payload), len(payload))
    assert line[-1:] == b"\n" and line.count(b"\n") == 1
    assert orjson.loads(payload) == {"key": "first", **RECORDS[0][1]}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None)
@given(
    records=st.dictionaries(
        st.text(), st.dictionaries(st.text().filter(lambda name: name != "key"), json_values, max_size=3)
    )
)
def test_any_json_comes_back(records: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("log")
    write(folder, list(records.items()))
    assert dict(WorkLog(folder).items()) == records


def test_token_ids_are_packed_and_come_back(tmp_path: Path) -> None:
    ids, packed_ids = [0, 1, 2**31 - 1, -5, 151_643], array("i", [0, 1, 2**31 - 1, -5, 151_643])
    path = write(tmp_path, [("key", {"response_ids": ids, "other_ids": ids}), ("none", {"response_ids": []})])
    log = WorkLog(tmp_path)
    assert log.get("key") == {"response_ids": packed_ids, "other_ids": ids}
    assert log.get("none") == {"response_ids": array("i")}
    packed = orjson.loads(path.read_bytes().splitlines()[0][18:])["response_ids"]
    assert base64.b64decode(packed) == b"".join(number.to_bytes(4, "little", signed=True) for number in ids)
    # As they were read they can be written again, to the same bytes.
    again = write(tmp_path / "again", [("key", log.get("key") or {}), ("none", log.get("none") or {})])
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("key", ['with "quotes"', "back\\slash", "", "é", "line\nbreak", "key"])
def test_any_key_is_found(tmp_path: Path, key: str) -> None:
    write(tmp_path, [("other", {"n": 1}), (key, {"key2": '{"key":"x"}'})])
    assert WorkLog(tmp_path).get(key) == {"key2": '{"key":"x"}'}


def test_more_files_than_are_kept_open(tmp_path: Path) -> None:
    for number in range(70):
        write(tmp_path, [(str(number), {"n": number})])
    log = WorkLog(tmp_path)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(2):
        assert dict(log.items()) == {str(number): {"n": number} for number in range(70)}
    if before:
        assert len(os.listdir("/proc/self/fd")) - before <= 64
        del log
        assert len(os.listdir("/proc/self/fd")) <= before


def test_a_last_record_torn_at_any_byte_is_dropped_and_the_others_stay(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", RECORDS).read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start, len(whole) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "shard.000.log").write_bytes(whole[:cut])
        log = WorkLog(folder)
        complete = cut == len(whole)
        assert dict(log.items()) == dict(RECORDS if complete else RECORDS[:2]), f"cut at byte {cut}"
        torn = cut != start and not complete
        assert (log.counts.torn, log.counts.damaged) == (int(torn), 0)
        assert log.counts.problems() == ("1 torn last lines" if torn else "")


@pytest.mark.parametrize("line", [0, 1])
def test_a_damaged_line_in_the_middle_is_counted_and_loses_nothing_else(tmp_path: Path, line: int) -> None:
    path = write(tmp_path, RECORDS)
    lines = path.read_bytes().splitlines(keepends=True)
    for offset in range(0, len(lines[line]) - 1, 7):
        broken = bytearray(lines[line])
        broken[offset] ^= 1
        path.write_bytes(b"".join([*lines[:line], bytes(broken), *lines[line + 1 :]]))
        log = WorkLog(tmp_path)
        # A flipped space between checksum and length hurts nobody; every other byte is covered.
        assert log.counts.damaged == (offset not in (8, 17)), f"byte {offset}"
        assert {RECORDS[other][0] for other in range(3) if other != line} <= set(log.keys())
        assert (RECORDS[line][0] in log) == (log.counts.damaged == 0)


def test_a_sound_line_that_is_no_record_is_counted_as_damaged(tmp_path: Path) -> None:
    with WorkLogWriter(tmp_path, "shard-0") as writer:
        writer.append("a", {"n": 1})
    payloads = (b'{"n":1}', b"[1]", b'{"key":3}', b"xx", b'{"key":"\xff"}')
    lines = [b"%08x %08x " % (zlib.crc32(payload), len(payload)) + payload + b"\n" for payload in payloads]
    (tmp_path / "other.000.log").write_bytes(b"".join(lines))
    log = WorkLog(tmp_path)
    assert list(log.keys()) == ["a"]
    assert (log.counts.records, log.counts.damaged) == (1, len(payloads))


def test_the_first_record_of_a_key_counts_and_duplicates_are_counted(tmp_path: Path) -> None:
    write(tmp_path, RECORDS, "shard-0-of-2")
    write(tmp_path, RECORDS[:1], "shard-1-of-2")
    log = WorkLog(tmp_path)
    assert (log.counts.duplicates, len(log)) == (1, 3)
    assert log.get("first") == RECORDS[0][1]
    write(tmp_path, [("first", {**RECORDS[0][1], "ids": [1, 2, 4]})], "shard-1-of-2")
    log = WorkLog(tmp_path)
    assert (log.counts.duplicates, log.counts.problems(), len(log)) == (2, "2 duplicates", 3)
    assert log.get("first") == RECORDS[0][1]


def test_a_further_folder_is_read_when_those_before_it_lack_a_key(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, records in ((first, [("k", {"n": 1})]), (second, [("k", {"n": 2}), ("l", {"n": 3})])):
        write(folder, records)
    log = WorkLog(tmp_path / "own", first, second)
    assert len(log) == 0
    assert (log.get("k"), len(log)) == ({"n": 1}, 1)
    assert [log.get(key) for key in "lkm"] == [{"n": 3}, {"n": 1}, None]


def test_two_writers_never_share_a_file(tmp_path: Path) -> None:
    with WorkLogWriter(tmp_path, "shard") as one, WorkLogWriter(tmp_path, "shard") as other:
        assert one.path != other.path
        for number in range(20):
            one.append(f"one-{number}", {"n": number})
            other.append(f"other-{number}", {"n": number})
    assert len(WorkLog(tmp_path)) == 40
    with WorkLogWriter(tmp_path, "shard") as third:
        third.append("third", {})
        assert third.path not in (one.path, other.path), "a finished log is never opened again for writing"


def test_a_torn_log_of_one_attempt_does_not_hurt_the_next(tmp_path: Path) -> None:
    path = write(tmp_path, RECORDS)
    path.write_bytes(path.read_bytes()[:-5])
    write(tmp_path, RECORDS[2:])
    log = WorkLog(tmp_path)
    assert dict(log.items()) == dict(RECORDS)
    assert (log.counts.torn, log.counts.duplicates) == (1, 0)


def test_an_unused_log_leaves_no_file_and_an_absent_folder_is_an_empty_log(tmp_path: Path) -> None:
    write(tmp_path / "folder", [])
    assert list((tmp_path / "folder").iterdir()) == []
    assert len(WorkLog(tmp_path / "folder")) == len(WorkLog(tmp_path / "none")) == 0


def test_a_record_is_readable_by_others_before_the_log_is_closed(tmp_path: Path) -> None:
    with WorkLogWriter(tmp_path, "shard") as writer:
        writer.append(*RECORDS[0])
        assert WorkLog(tmp_path).get("first") == RECORDS[0][1]


def test_a_killed_writer_loses_nothing_that_it_appended(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom stair.records.worklog import WorkLogWriter\n"
        "writer = WorkLogWriter(Path(sys.argv[1]), 'shard')\n"
        "for number in range(50): writer.append(str(number), {'n': number})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    log = WorkLog(tmp_path)
    assert dict(log.items()) == {str(number): {"n": number} for number in range(50)}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error_and_not_a_lost_record(tmp_path: Path) -> None:
    with WorkLogWriter(tmp_path, "shard") as writer:
        writer.append(*RECORDS[0])
        kept, writer._descriptor = writer._descriptor, os.open("/dev/full", os.O_WRONLY)
        with pytest.raises(OSError, match="No space left"):
            writer.append(*RECORDS[1])
        os.close(writer._descriptor)
        writer._descriptor = kept
    assert list(WorkLog(tmp_path).keys()) == ["first"]
