"""A response that cannot be generated: its trajectory ends there, all others are generated, and it is missing by name (C.3)."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from stair.engines.base import Engine, Reconstruction, Request
from stair.records.keys import ids_digest
from stair.records.shards import Shard
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions.run import ResponsesFailed, run_shard, sealed_rows
from stair.sessions.trajectory import Trajectory
from tests.sessions.protocol_cases import Rows, Study, WatchedEngine, fresh, in_order

BLOCK = 32
"""The smallest chunk in which a prompt goes through the model."""

one_model = pytest.mark.parametrize("study", ["qwen3"], indirect=True)
"""What becomes of a failure does not depend on the architecture."""
thinking_model = pytest.mark.parametrize("study", ["qwen3_5"], indirect=True)


@contextmanager
def failing_at(study: Study, request: Request, fail: Callable[[], None]) -> Iterator[None]:
    """Within it, the model fails whenever it processes the end of one request's prompt."""
    end = torch.tensor(request.prompt_ids[-BLOCK:])
    last = len(request.prompt_ids) - 1

    def watch(_: torch.nn.Module, __: Any, named: dict[str, Any]) -> None:
        ids, positions = named["input_ids"], named["position_ids"]
        for row in range(len(ids)):
            common = min(len(end), ids.shape[1])
            if common > 1 and int(positions[row, -1]) == last and torch.equal(ids[row, -common:], end[-common:]):
                fail()

    hook = study.model.register_forward_pre_hook(watch, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def out_of_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.")


def device_fails() -> None:
    raise RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with ...")


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class OnlyShard:
    """A condition's only shard, in a folder of its own."""

    study: Study
    condition: str
    accept: bool = False
    missing_first: dict[str, str] = field(default_factory=dict)
    engines: list[WatchedEngine] = field(default_factory=list)

    @property
    def work(self) -> Path:
        return self.study.folder / self.condition

    @property
    def marker(self) -> Path:
        return self.work / "shard-0-of-1.done"

    def trajectories(self, _: bool = False) -> list[Trajectory]:
        return [
            Trajectory(each._settings, each.questions, missing=self.missing_first[str(each)])
            if str(each) in self.missing_first
            else each
            for each in self.study.trajectories(self.condition)
        ]

    def run(self, width: int = 4) -> None:
        def load() -> Engine:
            self.engines.append(WatchedEngine(self.study.model, width=width))
            return self.engines[-1]

        progress = (self.study.folder / "progress", f"evaluation/{self.condition}/0")
        run_shard(self.trajectories, self.work, Shard(0, 1), load, progress, accept_missing=self.accept)

    def progress(self) -> tuple[int, int]:
        """Finished responses and all responses, as the last attempt's progress file has them."""
        told = json.loads((self.study.folder / "progress" / f"evaluation.{self.condition}.0.json").read_text())
        return told["done"], told["total"]

    def asked(self) -> int:
        """How many responses the last attempt asked for."""
        return len(self.engines[-1].requests)

    def sealed(self) -> tuple[Rows, list[dict[str, Any]]]:
        facts: dict[str, Any] = {}
        rows = in_order(list(sealed_rows(self.trajectories(), self.work, facts, accept_missing=self.accept)))
        return rows, facts["missing"]

    def failed(self) -> list[str]:
        """The responses that have failed, of all attempts."""
        return [record["response"] for _, record in WorkLog(self.work / "failed").items()]


def some_of(study: Study, condition: str, *turns: int) -> tuple[Rows, list[tuple[Mapping[str, Any], Request]]]:
    """A condition's rows; for each turn a row and the request that it answers: of a prompt whose end no other has.

    The rows are of trajectories of their own, in the order in which they were asked for.
    """
    engine = WatchedEngine(study.model)
    rows = study.go(condition, engine)
    answers = {(row["prompt_ids_sha256"], row["seed"]): row for row in rows}
    ends = Counter((len(each.prompt_ids), each.prompt_ids[-BLOCK:]) for each in engine.requests.values())
    found: dict[tuple[str, int], tuple[Mapping[str, Any], Request]] = {}
    for request in engine.requests.values():
        row = answers[ids_digest(request.prompt_ids), request.seed]
        place = (row["session_id"], row["sample"])
        alone = ends[len(request.prompt_ids), request.prompt_ids[-BLOCK:]] == 1
        if len(found) < len(turns) and row["turn"] == turns[len(found)] and alone and place not in found:
            found[place] = (row, request)
    assert len(found) == len(turns), "no prompt ends as no other does"
    return rows, list(found.values())


def one_of(study: Study, condition: str, turn: int) -> tuple[Rows, Mapping[str, Any], Request]:
    """A condition's rows, one row at a turn, and the request that it answers."""
    rows, ((row, request),) = some_of(study, condition, turn)
    return rows, row, request


def without(rows: Rows, lost: Mapping[str, Any]) -> Rows:
    """Rows without a response and the later turns of its trajectory."""
    place = (lost["session_id"], lost["sample"])
    return [row for row in rows if (row["session_id"], row["sample"]) != place or row["turn"] < lost["turn"]]


def tokens_of(rows: Rows) -> list[list[Any]]:
    """Responses by place. The last bits of captured states depend on the batch, which shrinks when memory runs out."""
    return [[row[name] for name in ("session_id", "sample", "turn", "response_ids")] for row in rows]


@pytest.mark.parametrize(("study", "condition"), [("qwen3", "native"), ("qwen3_5", "stair")], indirect=["study"])
def test_one_response_that_fails_every_time_stops_its_own_trajectory_only(
    study: Study, tmp_path: Path, condition: str
) -> None:
    expected, lost, request = one_of(study, condition, 2)
    shard = OnlyShard(fresh(study, tmp_path / "again"), condition)
    with failing_at(study, request, out_of_memory):
        for attempt in range(2):
            with pytest.raises(ResponsesFailed) as error:
                shard.run()
            told = str(error.value)
            assert (
                f"session {lost['session_id']}, sample {lost['sample']}, turn 2: the device's memory does not suffice"
                in told
            )
            assert "accept_missing: true" in told and "\n" not in told
            assert not shard.marker.exists()
            generated = len(expected) // 4 * 3
            assert shard.asked() == (1 if attempt else generated - 2), (
                "a failure is tried once a start, others never again"
            )
        assert shard.failed() == [f"session {lost['session_id']}, sample {lost['sample']}, turn 2"]
        with pytest.raises(ValueError, match="1 of 10 trajectories have not ended"):
            shard.sealed()
        # Accepted as missing, it is not asked for again.
        shard.accept, attempts = True, len(shard.engines)
        shard.run()
        assert len(shard.engines) == attempts and shard.marker.is_file()
        assert shard.progress() == (generated - 3, generated)
    rows, gaps = shard.sealed()
    assert tokens_of(rows) == tokens_of(without(expected, lost))
    assert [(gap["session_id"], gap["sample"], gap["turn"]) for gap in gaps] == [
        (lost["session_id"], lost["sample"], turn) for turn in (2, 3, 4)
    ]
    reason = gaps[0]["reason"]
    assert reason.startswith("the device's memory does not suffice")
    assert gaps[2]["reason"] == f"T2 of its trajectory is missing: {reason}"
    assert gaps[0]["problem_id"] == lost["problem_id"]
    # A later attempt that succeeds takes the gap's place, though such responses may still be missing.
    shard.accept = False
    shard.run()
    assert shard.asked() == 3
    shard.accept = True
    rows, gaps = shard.sealed()
    assert tokens_of(rows) == tokens_of(expected)
    assert gaps == []


@one_model
def test_an_accepted_failure_ends_no_shard(study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that accepts missing responses from its start ends with one attempt; a lost log is no failure."""
    expected, lost, request = one_of(study, "native", 2)
    shard = OnlyShard(fresh(study, tmp_path / "again"), "native", accept=True)
    with failing_at(study, request, out_of_memory):
        shard.run()
    assert shard.marker.is_file()
    place = f"session {lost['session_id']}, sample {lost['sample']}, turn 2"
    assert f"could not generate {place}: the device's memory" in capsys.readouterr().out
    assert tokens_of(shard.sealed()[0]) == tokens_of(without(expected, lost))
    for path in (shard.work / "log").glob("*.log"):
        path.unlink()
    with pytest.raises(ValueError, match="9 of 10 trajectories have not ended"):
        shard.sealed()
    assert not shard.marker.exists()


def test_states_that_cannot_be_reconstructed_stop_their_own_trajectory(study: Study, tmp_path: Path) -> None:
    """T1's states come from a pass over its saved tokens, before T2 is asked."""
    study.sessions, study.samples = 3, 2
    rows = study.go("stair", WatchedEngine(study.model))
    first = next(row for row in rows if row["turn"] == 1 and row["sample"] == 1)
    shard = OnlyShard(fresh(study, tmp_path / "again"), "stair")
    name = f"session {first['session_id']}, sample 1, turn 1"
    (trajectory,) = [each for each in shard.trajectories() if str(each) == name]
    trajectory.advance()
    lost = trajectory.advance()
    assert isinstance(lost, Reconstruction)
    whole = (*lost.prompt_ids, *lost.response_ids)
    with pytest.MonkeyPatch.context() as patch:
        reconstruct = WatchedEngine.reconstruct

        def refuse(self: WatchedEngine, reconstructions: Any) -> Any:
            if any((*each.prompt_ids, *each.response_ids) == whole for each in reconstructions):
                raise MemoryError("the device's memory does not suffice for a single response")
            return reconstruct(self, reconstructions)

        patch.setattr(WatchedEngine, "reconstruct", refuse)
        with pytest.raises(ResponsesFailed, match=f"session {first['session_id']}, sample 1, turn 2"):
            shard.run()
    assert shard.asked() == 5 * 3
    shard.run()
    assert shard.asked() == 3
    assert shard.sealed()[0] == rows


@one_model
def test_a_device_that_fails_names_the_response_when_it_generates_one_at_a_time(study: Study, tmp_path: Path) -> None:
    """With several responses under way, each could be the cause."""
    expected, lost, request = one_of(study, "native", 2)
    shard = OnlyShard(fresh(study, tmp_path / "again"), "native")
    with failing_at(study, request, device_fails):
        with pytest.raises(ResponsesFailed) as error:
            shard.run()
        told = str(error.value)
        assert "RuntimeError: CUDA error: an illegal memory access was encountered; 4 responses were under way" in told
        assert "batch_width" in told and "\n" not in told
        assert shard.failed() == []
        with pytest.raises(ResponsesFailed, match=f"session {lost['session_id']}, sample {lost['sample']}, turn 2"):
            shard.run(width=1)
    assert len(shard.failed()) == 1
    shard.accept = True
    shard.run()
    rows, gaps = shard.sealed()
    assert rows == without(expected, lost) and len(gaps) == 3


@one_model
def test_a_stop_and_a_full_disk_blame_no_response(study: Study, tmp_path: Path) -> None:
    shard = OnlyShard(fresh(study, tmp_path / "again"), "native")
    _, _, request = one_of(study, "native", 2)

    def stopped() -> None:
        raise SystemExit(75)

    def full() -> None:
        raise OSError(28, "No space left on device")

    for fail in (stopped, full, stopped, full):
        with failing_at(study, request, fail), pytest.raises((SystemExit, OSError)):
            shard.run()
        assert shard.failed() == []
    shard.run()
    assert shard.marker.is_file()


@thinking_model
def test_a_t1_that_is_missing_in_vanilla_is_missing_in_what_reuses_it(study: Study, tmp_path: Path) -> None:
    expected = study.go("stair", WatchedEngine(study.model))
    lost = next(row for row in expected if row["turn"] == 1)
    shard = OnlyShard(fresh(study, tmp_path / "again"), "stair")
    shard.missing_first[f"session {lost['session_id']}, sample {lost['sample']}, turn 1"] = "out of memory"
    shard.run()
    rows, gaps = shard.sealed()
    assert rows == without(expected, lost)
    assert [gap["turn"] for gap in gaps] == [1, 2, 3, 4]
    assert len(shard.engines[0].requests) == 3 * 9 and shard.progress() == (3 * 9, 3 * 9)


@one_model
def test_many_failures_in_a_row_are_no_fault_of_single_responses(study: Study, tmp_path: Path) -> None:
    """A damaged weight makes every response NaN: the shard does not try them all."""
    many = fresh(study, tmp_path / "again")
    many.samples = 6
    many.first_rows = {
        (row["problem_id"], sample): row
        for row in study.first_rows.values()
        if row["sample"] == 0
        for sample in range(6)
    }
    shard = OnlyShard(many, "native")

    def spoil(_: torch.nn.Module, __: Any, output: Any) -> None:
        output.logits.fill_(torch.nan)

    hook = study.model.register_forward_hook(spoil)
    try:
        with pytest.raises(ResponsesFailed, match="20 responses in a row could not be generated") as error:
            shard.run()
    finally:
        hook.remove()
    assert shard.asked() < 30
    told = str(error.value)
    assert len(set(shard.failed())) == 20
    assert told.startswith("evaluation/native/0: ") and "\n" not in told
    assert "the cause is probably not in the responses" in told and "run the same command again" in told
    shard.run()
    assert shard.marker.is_file()


@one_model
def test_a_device_that_fails_later_loses_no_name(study: Study, tmp_path: Path) -> None:
    """A response fails by itself, then the device with several others under way, then with one alone."""
    expected, ((first, small), (second, last)) = some_of(study, "native", 2, 4)
    shard = OnlyShard(fresh(study, tmp_path / "again"), "native")
    lost = [f"session {row['session_id']}, sample {row['sample']}, turn {row['turn']}" for row in (first, second)]
    with failing_at(study, small, out_of_memory), failing_at(study, last, device_fails):
        with pytest.raises(ResponsesFailed, match="illegal memory access") as error:
            shard.run()
        assert "responses were under way" in str(error.value) and "\n" not in str(error.value)
        assert shard.failed() == lost[:1]
        shard.accept = True
        with pytest.raises(ResponsesFailed, match=lost[1]):
            shard.run(width=1)
        assert set(shard.failed()) == set(lost)
        shard.run()
    assert tokens_of(shard.sealed()[0]) == tokens_of(without(without(expected, first), second))


@thinking_model
def test_states_that_are_lost_are_not_needed_for_a_missing_response(study: Study, tmp_path: Path) -> None:
    rows = study.go("stair", WatchedEngine(study.model))
    lost = next(row for row in rows if row["turn"] == 2)
    shard = OnlyShard(fresh(study, tmp_path / "again"), "stair", accept=True)
    name = f"session {lost['session_id']}, sample {lost['sample']}, turn 1"
    (trajectory,) = [each for each in shard.trajectories() if str(each) == name]
    key = trajectory.advance()
    assert isinstance(key, str)
    with WorkLogWriter(shard.work / "failed", "shard-0-of-1") as writer:
        writer.append(key, {"response": str(trajectory), "reason": "out of memory"})
    shard.run()
    found, gaps = shard.sealed()
    assert [gap["turn"] for gap in gaps] == [2, 3, 4]
    assert tokens_of(found) == tokens_of(without(rows, lost))
