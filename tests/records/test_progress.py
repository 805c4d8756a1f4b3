"""The progress of a job that is resumed: its count, and its estimate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stair.records.progress import Progress, read_progress


def test_the_time_left_follows_from_this_start_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two batches in 20 seconds, whatever came before."""
    progress = Progress(tmp_path, "replay/model/0", 10, "batches", done=6)
    progress.begin()
    progress._start -= 20.0
    progress._file_time = 0.0
    progress.set(8)
    assert re.match(r"replay/model/0: 8 of 10 batches \(80%\) after 20s, about 20s left\n", capfd.readouterr().err)
    last = read_progress(progress.path)
    assert last is not None and (last.done, last.fresh) == (8, 2)


def test_a_progress_file_of_an_older_version_is_none(tmp_path: Path) -> None:
    (file := tmp_path / "replay.model.0.json").write_text('{"done": 3, "total": 10}')
    assert read_progress(file) is None
