"""Every job has GPUs of its own: locks are real, CUDA is not asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stair.config.resolve import resolve
from stair.records import gpus
from stair.records.gpus import VISIBLE, own_gpus, visible_gpus
from tests.workflow.conftest import ROOT

HOLD = """
import sys
from stair.records.gpus import own_gpus
with own_gpus(int(sys.argv[1])) as names:
    print(",".join(names), flush=True)
    sys.stdin.read()
"""


FOUR, B, SIX = (f"{name}-{os.getpid()}" for name in ("4", "GPU-b", "6"))
"""Names that no other process of this machine uses."""
ALL = ",".join((FOUR, B, SIX))


def job(count: int, script: str = HOLD, **variables: str) -> subprocess.Popen[str]:
    """A process that holds GPUs until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", script, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_jobs_have_different_gpus_and_a_killed_one_gives_its_own_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, ALL)
    first, second = job(1), job(1)
    one, two = told(first), told(second)
    assert {one, two} < {FOUR, B, SIX} and one != two
    both = job(2)
    assert both.stderr is not None
    assert f"waiting for 2 of the GPUs {FOUR}, {B}, {SIX}" in both.stderr.readline()
    with own_gpus(1) as left:
        assert {*left, one, two} == {FOUR, B, SIX}, "who waits for two holds none"
        assert os.environ[VISIBLE] == left[0]
    assert os.environ[VISIBLE] == ALL
    first.kill()
    assert set(told(both).split(",")) == {FOUR, B, SIX} - {two}
    end(first, second, both)


def end(*jobs: subprocess.Popen[str]) -> None:
    for process in jobs:
        process.kill()
        process.communicate()


def test_another_folder_for_temporary_files_is_no_other_machine(tmp_path: Path) -> None:
    """Two users, or two shells with a TMPDIR each, share the GPUs and their locks."""
    one = job(1, **{VISIBLE: ALL})
    two = job(1, **{VISIBLE: ALL, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)})
    assert told(one) != told(two)
    end(one, two)


def test_a_program_that_replaces_the_job_keeps_its_gpus() -> None:
    """A training with several workers becomes torchrun."""
    becomes = HOLD.replace("sys.stdin.read()", "import os; os.execvp('cat', ['cat'])")
    launcher = job(2, becomes, **{VISIBLE: ALL})
    assert launcher.stdin is not None and launcher.stdout is not None
    mine = told(launcher).split(",")
    launcher.stdin.write("replaced\n")
    launcher.stdin.flush()
    assert told(launcher) == "replaced"
    other = job(1, **{VISIBLE: ALL})
    assert {told(other), *mine} == {FOUR, B, SIX}
    end(launcher, other)


def test_a_job_that_needs_every_gpu_of_the_machine_locks_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody has chosen GPUs for it, so another job may see the same ones."""
    (tmp_path / "0000:00:00.0").touch()
    monkeypatch.setattr(gpus, "_DRIVER_FOLDER", tmp_path)
    monkeypatch.delenv(VISIBLE, raising=False)
    locked: list[str] = []
    monkeypatch.setattr(gpus, "_try_lock", lambda lock, name: not locked.append(name))
    with own_gpus(1) as names:
        assert (names, locked, os.environ[VISIBLE]) == (["0"], ["0"], "0")
    assert VISIBLE not in os.environ


@pytest.mark.parametrize(("named", "count"), [("GPU-a", 1), ("0,1", 2), ("", 1), ("-1", 1), ("0,1,2", 0)])
def test_what_a_scheduler_gave_is_left_alone(monkeypatch: pytest.MonkeyPatch, named: str, count: int) -> None:
    monkeypatch.setenv(VISIBLE, named)
    monkeypatch.setattr(gpus, "_try_lock", None)
    with own_gpus(count) as names:
        assert names == visible_gpus()
        assert os.environ[VISIBLE] == named


def test_how_many_gpus_a_job_may_use() -> None:
    paper = resolve(ROOT, {"run": "paper", "sglang": {"tensor_parallel": 2}})
    assert (paper.gpus_for("sglang"), paper.gpus_for("transformers")) == (2, 1)
    tiny = resolve(ROOT, {"run": "tiny"})
    assert (tiny.gpus_for("sglang"), tiny.gpus_for("transformers")) == (0, 0)
