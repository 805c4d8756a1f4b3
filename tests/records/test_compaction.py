"""Many log files become one; no record is lost, whatever is in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stair.records import compaction
from stair.records.compaction import Compacted, compact
from stair.records.files import partial_path, remove_leftovers
from stair.records.leases import HeldError, Lease
from stair.records.worklog import WorkLog, WorkLogWriter


def filled(work: Path, files: int = 5) -> dict[str, dict[str, object]]:
    """A log of several files, with a duplicate each, torn ends and a damaged line; what it holds."""
    for number in range(files):
        with WorkLogWriter(work / "log", f"shard-{number}-of-{files}") as writer:
            for record in range(4):
                key = f"{number}-{record}"
                writer.append(key, {"response_ids": list(range(record)), "response": f"{key}\n"})
            writer.append("everywhere", {"n": 1})
        text = writer.path.read_bytes()
        writer.path.write_bytes(text + (text[:30] if number % 2 else b"damaged\n"))
    return dict(WorkLog(work / "log").items())


def test_many_files_become_one(tmp_path: Path) -> None:
    before = filled(tmp_path)
    size = sum(path.stat().st_size for path in (tmp_path / "log").iterdir())
    done = compact(tmp_path, always=True)
    (path,) = (tmp_path / "log").iterdir()
    assert done == Compacted(5, 21, size - path.stat().st_size)
    log = WorkLog(tmp_path / "log")
    assert list(log.items()) == list(before.items())
    assert (log.counts.problems(), log.size) == ("", log.used)
    assert compact(tmp_path, always=True) is None
    with WorkLogWriter(tmp_path / "log", "shard-0-of-1") as writer:
        writer.append("new", {"n": 2})
    compact(tmp_path, always=True)
    assert dict(WorkLog(tmp_path / "log").items()) == before | {"new": {"n": 2}}


def test_after_a_seal_only_what_is_worth_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = filled(tmp_path, files=16)
    assert compact(tmp_path) is None
    monkeypatch.setattr(compaction, "_WASTED_BYTES", 100)
    assert compact(tmp_path) is not None, "a tenth of it is waste"
    for number in range(16):
        with WorkLogWriter(tmp_path / "log", f"more-{number}") as writer:
            writer.append(f"more-{number}", {})
    assert compact(tmp_path) is not None, "there are many files"
    assert len(WorkLog(tmp_path / "log")) == len(before) + 16


def test_a_log_that_someone_writes_to_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stair.records.leases._KILL_SECONDS", 0.1)
    filled(tmp_path)
    names = sorted(path.name for path in (tmp_path / "log").iterdir())
    with Lease(tmp_path, "shard-0-of-5"), pytest.raises(HeldError):
        compact(tmp_path, always=True)
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == names


def test_conflicting_records_are_not_made_one(tmp_path: Path) -> None:
    for number in range(2):
        with WorkLogWriter(tmp_path / "log", "shard") as writer:
            writer.append("key", {"n": number})
    with pytest.raises(ValueError, match="two different records of one key"):
        compact(tmp_path, always=True)
    assert len(list((tmp_path / "log").iterdir())) == 2


def test_what_dead_processes_left_unfinished_is_removed(tmp_path: Path) -> None:
    mine = partial_path(tmp_path / "deep" / "mine.parquet")
    host = mine.name.split(".")[3]
    dead, elsewhere, old = (
        mine.with_name(name)
        for name in (f".dead.json.{host}.4194305.partial", ".x.csv.other-host.1.partial", ".y.csv.other-host.7.partial")
    )
    keep = mine.with_name("kept.partial")
    mine.parent.mkdir()
    for path in (mine, dead, elsewhere, old, keep):
        path.write_text("")
    os.utime(old, (0, 0))
    unpacked = tmp_path / f".archive.{host}.4194305.partial"
    (unpacked / "responses").mkdir(parents=True)
    (unpacked / "responses" / "a.parquet").write_text("")
    assert remove_leftovers(tmp_path) == 3
    assert not unpacked.exists()
    assert sorted(mine.parent.iterdir()) == sorted([mine, elsewhere, keep])
