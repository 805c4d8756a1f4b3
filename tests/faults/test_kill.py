"""SIGKILL in the middle of a run, twice: the next start goes on by itself and ends with the same bytes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from stair.records.worklog import WorkLog
from tests.workflow.conftest import MICRO, RESULTS, contents, environment, run_in

pytestmark = [pytest.mark.faults, pytest.mark.timeout(450)]

COMMAND = ("stair", "reproduce", "--run", str(MICRO))
# Two rows at a time, so that responses end a few at a time and there is a middle to kill in. Batch width is in no key.
SLOW = ("--set", "transformers={batch_width: 2}")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    run_in(folder, *COMMAND, *SLOW)
    return folder / "results" / "micro"


def logged(results: Path, stage: str) -> dict[str, bytes]:
    """Whole records in a stage's logs: their places and bytes."""
    found = {}
    for folder in (results / "work" / stage).glob("**/log"):
        for path in folder.glob("*.log"):
            for number, line in enumerate(path.read_bytes().splitlines(keepends=True)):
                if line.endswith(b"\n"):
                    found[f"{path.relative_to(results)}:{number}"] = line
    return found


def kill_when(folder: Path, ready: Callable[[], bool]) -> None:
    """Starts the run, and kills its driver with SIGKILL as soon as `ready` says so; nothing of it may live on."""
    with open(folder / "output.txt", "a") as output:
        child = subprocess.Popen([*COMMAND, *SLOW], cwd=folder, env=environment(), stdout=output, stderr=output)
        deadline = time.monotonic() + 300
        while not ready():
            assert child.poll() is None, (
                f"the run ended before it could be killed:\n{(folder / 'output.txt').read_text()}"
            )
            assert time.monotonic() < deadline, "the run never came to the point where it is to be killed"
            time.sleep(0.05)
        family = psutil.Process(child.pid).children(recursive=True)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        _, alive = psutil.wait_procs(family, timeout=10)
        assert not alive, f"processes outlived their driver: {alive}"


def test_a_run_killed_in_rollouts_and_again_in_evaluation_ends_as_if_undisturbed(
    undisturbed: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results" / "micro"
    # The backbone is not what is tested here: take it over, as a user would who copies a folder.
    for part in ("backbones", "raw"):
        shutil.copytree(undisturbed / part, results / part)

    kill_when(tmp_path, lambda: len(logged(results, "rollouts")) >= 10)
    after_first = logged(results, "rollouts")
    kill_when(tmp_path, lambda: len(logged(results, "evaluation")) >= 60)
    after_second = logged(results, "evaluation")

    done = run_in(tmp_path, *COMMAND, *SLOW)
    assert "going on from what it finished" in done.stderr

    # Nothing that was finished is gone, and nothing was generated a second time.
    for stage, before in (("rollouts", after_first), ("evaluation", after_second)):
        now = logged(results, stage)
        assert before.items() <= now.items()
        for folder in (results / "work" / stage).glob("**/log"):
            counts = WorkLog(folder).counts
            assert counts.duplicates == 0
            assert counts.damaged == 0
    assert contents(results, *RESULTS) == contents(undisturbed, *RESULTS)


def test_a_run_that_lost_its_captured_states_makes_them_again(undisturbed: Path, tmp_path: Path) -> None:
    results = tmp_path / "results" / "micro"
    for part in ("backbones", "raw", "rollouts", "controllers"):
        shutil.copytree(undisturbed / part, results / part)
    work = results / "work" / "evaluation" / "qwen3-4b-instruct" / "math500" / "stair"

    def past_second_turn() -> bool:
        """Whether a chain has the states of two turns on disk, and so a third turn to come."""
        owners = Counter(path.name.split(".")[0] for path in (work / "banks").glob("*.safetensors"))
        return any(count > 1 for count in owners.values())

    for _ in range(5):  # a chain can end between the look and the kill
        kill_when(tmp_path, past_second_turn)
        if past_second_turn():
            break
    assert past_second_turn()
    for path in (work / "banks").glob("*.safetensors"):
        path.unlink()
    run_in(tmp_path, *COMMAND, *SLOW)
    assert (results / "checks.csv").is_file()
    sources = {row["bank_source"] for row in rows_of(results) if row["turn"] > 2}
    assert sources <= {"decoded", "replayed"}
    assert "replayed" in sources


def rows_of(results: Path) -> list[dict[str, Any]]:
    """STAIR's sealed rows."""
    path = results / "responses" / "qwen3-4b-instruct" / "math500" / "stair.parquet"
    return pq.read_table(path).to_pylist()


def test_a_second_driver_in_the_same_folder_is_refused(undisturbed: Path, tmp_path: Path) -> None:
    results = tmp_path / "results" / "micro"
    for part in ("backbones", "raw"):
        shutil.copytree(undisturbed / part, results / part)
    first = subprocess.Popen(
        [*COMMAND, *SLOW], cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not logged(results, "rollouts"):
            assert first.poll() is None
            time.sleep(0.05)
        second = run_in(tmp_path, *COMMAND, *SLOW, check=False)
        assert second.returncode == 2
        assert "another run is at work" in second.stderr
    finally:
        first.kill()
        first.wait()
