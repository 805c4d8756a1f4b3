"""The progress of a job that is killed and resumed: its count, its estimate, and the seconds of all its attempts."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from stair.records.progress import Progress


def attempt(folder: Path, done: int, until: int, seconds: float) -> Progress:
    """One attempt of a job of ten units, of which it finishes some."""
    progress = Progress(folder, "replay/model/0", 10, "batches", done)
    progress._created -= seconds - 1.0  # a second of loading
    progress.begin()
    progress._start -= seconds - 1.0
    progress._file_time = 0.0
    progress.set(until)
    return progress


def killed(folder: Path, done: int, until: int, seconds: float) -> None:
    """The same in a process that SIGKILL ends."""
    if (child := os.fork()) == 0:
        try:
            attempt(folder, done, until, seconds)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def earlier(folder: Path) -> tuple[int, float]:
    content = json.loads((folder / "replay.model.0.json").read_text())
    return content["earlier_attempts"], content["earlier_seconds"]


def test_attempts_that_were_killed_and_resumed_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    killed(tmp_path, 0, 4, 100.0)
    assert earlier(tmp_path) == (0, 0.0)
    killed(tmp_path, 4, 6, 30.0)
    assert earlier(tmp_path) == (1, pytest.approx(99.0, abs=0.5))
    capfd.readouterr()
    last = attempt(tmp_path, 6, 8, 21.0)
    assert earlier(tmp_path) == (2, pytest.approx(128.0, abs=0.5))
    # Two batches in 20 seconds, whatever came before.
    assert re.match(r"replay/model/0: 8 of 10 batches \(80%\) after 20s, about 20s left\n", capfd.readouterr().err)
    last.set(10)
    Progress(tmp_path, "replay/model/0", 10, "batches", 10)
    assert earlier(tmp_path)[0] == 3, "an attempt that found nothing to do forgets no other"


@pytest.mark.parametrize(("done", "before"), [(0, 4), (5, 10)])
def test_work_that_is_not_resumed_is_not_counted(tmp_path: Path, done: int, before: int) -> None:
    """The job begins again; or it had ended, and Snakemake has measured it."""
    attempt(tmp_path, 0, before, 100.0)
    Progress(tmp_path, "replay/model/0", 20 if done else 10, "batches", done)
    assert earlier(tmp_path) == (0, 0.0)


def test_a_progress_file_of_an_older_version_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "replay.model.0.json").write_text(
        json.dumps({"done": 3, "total": 10, "seconds": 5.0, "updated": time.time()})
    )
    Progress(tmp_path, "replay/model/0", 10, "batches", 3)
    assert earlier(tmp_path) == (0, 0.0)
