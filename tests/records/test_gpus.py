"""Every job has GPUs of its own: locks are real, CUDA is not asked."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stair.config.resolve import resolve
from stair.records.gpus import VISIBLE, own_gpus, visible_gpus
from tests.workflow.conftest import ROOT

HOLD = """
import sys
from stair.records.gpus import own_gpus
with own_gpus(int(sys.argv[1])) as names:
    print(",".join(names), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def job(count: int) -> subprocess.Popen[str]:
    """A process that holds GPUs until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_jobs_have_different_gpus_and_a_killed_one_gives_its_own_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "4,GPU-b,6")
    first, second = job(1), job(1)
    one, two = told(first), told(second)
    assert {one, two} < {"4", "GPU-b", "6"} and one != two
    both = job(2)
    assert both.stderr is not None
    assert "waiting for 2 of the GPUs 4, GPU-b, 6" in both.stderr.readline()
    with own_gpus(1) as left:
        assert {*left, one, two} == {"4", "GPU-b", "6"}, "who waits for two holds none"
        assert os.environ[VISIBLE] == left[0]
    assert os.environ[VISIBLE] == "4,GPU-b,6"
    first.kill()
    assert set(told(both).split(",")) == {"4", "GPU-b", "6"} - {two}
    for process in (first, second, both):
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("named", "count"), [("GPU-a", 1), ("0,1", 2), ("", 1), ("-1", 1), ("0,1,2", 0)])
def test_what_a_scheduler_gave_is_left_alone(monkeypatch: pytest.MonkeyPatch, named: str, count: int) -> None:
    monkeypatch.setenv(VISIBLE, named)
    with own_gpus(count) as names:
        assert names == visible_gpus()
        assert os.environ[VISIBLE] == named
    assert not list(Path(tempfile.gettempdir()).glob("stair-gpus-*"))


def test_how_many_gpus_a_job_may_use() -> None:
    paper = resolve(ROOT, {"run": "paper", "sglang": {"tensor_parallel": 2}})
    assert (paper.gpus_for("sglang"), paper.gpus_for("transformers")) == (2, 1)
    tiny = resolve(ROOT, {"run": "tiny"})
    assert (tiny.gpus_for("sglang"), tiny.gpus_for("transformers")) == (0, 0)
