"""Faults below the program, for real: one clear line each, and the next attempt goes on from what was finished."""

from __future__ import annotations

import os
import resource
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from stair.sessions.run import read_log
from tests.conftest import random_model
from tests.sessions.protocol_cases import Study, WatchedEngine


def in_a_child(act: Callable[[], object]) -> str:
    """What an action that has to fail says of it, run in a process of its own; the type's name comes first."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
            told = "nothing failed"
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if os.environ.get("STAIR_TRACEBACK"):
                traceback.print_exc()
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        told = answer.read().decode()
    os.waitpid(child, 0)
    return told


@pytest.mark.parametrize(
    ("study", "limit", "file"),
    [("qwen3", 8000, ".log"), ("qwen3_5", 2500, ".safetensors")],
    indirect=["study"],
    ids=["log", "bank"],
)
def test_a_full_disk_is_one_line_that_names_the_file(study: Study, tmp_path: Path, limit: int, file: str) -> None:
    """Files of this process may not grow beyond the limit, as on a disk that is full."""
    expected = study.go("stair", WatchedEngine(study.model))
    again = Study(study.model, study.renderer, tmp_path / "again", study.sessions, study.samples, study.first_rows)

    def act() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        again.go("stair", WatchedEngine(again.model))

    told = in_a_child(act)
    assert told.startswith("OSError: [Errno "), "without its number it would be a fault of the response"
    assert "cannot be written: " in told and "too large" in told.lower()
    assert f"{file}" in told.split(" cannot be written")[0]
    assert len(told.splitlines()) == 1
    kept = again.log("stair")
    finished = sum("response_ids" in record for _, record in kept.items())
    assert kept.counts.damaged == 0
    engine = WatchedEngine(study.model)
    assert again.go("stair", engine) == expected
    assert len(engine.requests) == 3 * 5 * 2 - finished, "what was finished before is not generated again"


def test_a_damaged_weight_names_each_response_in_one_line(small_tokenizer: Any, tmp_path: Path) -> None:
    """One weight becomes NaN in the middle of a run, as from a failing memory cell."""
    from stair.sessions.renderer import Renderer
    from tests.sessions.conftest import STOP_IDS

    model = random_model("qwen3")
    study = Study(model, Renderer(small_tokenizer(False), thinking=False, stop_ids=STOP_IDS), tmp_path)
    whole = study.go("vanilla", WatchedEngine(model))
    again = Study(model, study.renderer, tmp_path / "again")
    weight = model.get_decoder().layers[2].mlp.down_proj.weight  # type: ignore[union-attr]
    sound = weight[3, 5].item()

    class Failing(WatchedEngine):
        def run(self, requests: Any) -> Any:
            for number, completion in enumerate(super().run(requests)):
                if number == 3:
                    with torch.inference_mode():
                        weight[3, 5] = torch.nan
                yield completion

    failing = Failing(model)
    try:
        again.go("vanilla", failing)
    finally:
        with torch.inference_mode():
            weight[3, 5] = sound
    log = again.log("vanilla")
    assert 4 <= len(log) < len(whole)
    asked = {each.advance() for each in again.trajectories("vanilla")}
    named = {failed.key for failed in again.failed}
    assert named < asked and len(named) == len(again.failed) == len(whole) - len(log)
    for failed in again.failed:
        assert "turn 1: the model's logits became NaN or infinite" in str(failed) and "\n" not in str(failed)
        assert "float32" in str(failed) and "finished responses are kept" in str(failed)
    assert again.go("vanilla", WatchedEngine(model)) == whole


def test_a_process_failure_leaves_responses_missing_and_later_turns_wait(study: Study) -> None:
    """What failed has no row, no later turn of its trajectory is asked, and the others are whole (appendix C.3)."""
    engine = WatchedEngine(study.model, stop_after=7)
    with pytest.raises(KeyboardInterrupt):
        study.go("native", engine)
    log, trajectories = study.log("native"), study.trajectories("native")
    rows = []
    for trajectory in trajectories:
        _, ended = read_log(trajectory, log)
        turns = [row["turn"] for row in trajectory.rows]
        assert turns == list(range(1, len(turns) + 1)), "no turn stands behind a missing one"
        assert ended == (len(turns) == 4)
        rows += trajectory.rows
    assert len(rows) == 10 + 7
    assert any(len(each.rows) < 4 for each in trajectories)
