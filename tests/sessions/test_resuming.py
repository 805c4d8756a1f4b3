"""Nothing that was generated is lost: runs that are cut off anywhere and taken up again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from stair.engines.base import Engine
from stair.engines.transformers.batch import Batch, Drawn
from stair.method import Segment
from stair.records.keys import ids_digest
from stair.records.progress import Progress
from stair.records.shards import Shard
from stair.records.worklog import WorkLog
from stair.sessions.banks import BankStore
from stair.sessions.run import read_log, run_shard, sealed_rows
from stair.sessions.trajectory import Trajectory
from tests.conftest import LAYERS
from tests.sessions.protocol_cases import Rows, Study, WatchedEngine, fresh, in_order, rows_of


def cut_off(study: Study, condition: str, after: int, writer: str = "shard-0-of-1") -> int:
    """Runs a condition until it dies with so many responses finished; how many are in the log."""
    with pytest.raises(KeyboardInterrupt):
        study.go(condition, WatchedEngine(study.model, stop_after=after), writer)
    return len([key for key, record in study.log(condition).items() if "response_ids" in record])


@pytest.mark.parametrize(
    ("study", "condition"),
    [("qwen3", "native"), ("qwen3", "stair"), ("qwen3", "own_first"), ("qwen3_5", "stair")],
    indirect=["study"],
)
def test_a_run_cut_off_anywhere_ends_with_the_same_rows(study: Study, condition: str, tmp_path: Path) -> None:
    study.sessions, study.samples = 2, 1
    expected = study.go(condition, WatchedEngine(study.model))
    total = 2 * (4 if condition == "own_first" else 3)
    for after in range(total):
        again = fresh(study, tmp_path / f"cut {after}")
        assert cut_off(again, condition, after) == after
        engine = WatchedEngine(study.model)
        assert again.go(condition, engine) == expected, f"cut off after {after} responses"
        assert len(engine.requests) == total - after, "a finished response was generated again"


def test_a_run_cut_off_again_and_again(study: Study, tmp_path: Path) -> None:
    study.sessions, study.samples = 2, 1
    expected = study.go("stair", WatchedEngine(study.model))
    again = fresh(study, tmp_path / "again")
    for attempt in range(1, 6):
        assert cut_off(again, "stair", 1) == attempt
    assert again.go("stair", WatchedEngine(study.model)) == expected
    assert again.log("stair").counts.duplicates == 0


def test_a_torn_log_costs_one_response(study: Study, tmp_path: Path) -> None:
    study.sessions, study.samples = 2, 1
    expected = study.go("stair", WatchedEngine(study.model))
    again = fresh(study, tmp_path / "again")
    cut_off(again, "stair", 4)
    (path,) = (again.folder / "stair" / "log").glob("*.log")
    path.write_bytes(path.read_bytes()[:-3])
    engine = WatchedEngine(study.model)
    assert again.go("stair", engine) == expected
    assert len(engine.requests) == 3
    assert again.log("stair").counts.torn == 1


def sealed(study: Study, condition: str) -> Rows:
    """A condition's rows from its log alone."""
    return in_order(list(sealed_rows(study.trajectories(condition), study.folder / condition)))


def no_engine() -> Engine:
    raise AssertionError("an engine was loaded, though every response is in the log")


def test_a_finished_log_needs_no_engine(study: Study) -> None:
    study.sessions = 3
    rows = study.go("stair", WatchedEngine(study.model))
    trajectories, log = study.trajectories("stair"), study.log("stair")
    assert [read_log(each, log) for each in trajectories] == [(3, True)] * 3 * 2
    assert rows_of(trajectories) == rows
    assert sealed(study, "stair") == rows
    marker = study.folder / "stair" / "shard-0-of-1.done"
    run_shard(
        lambda _: list(study.trajectories("stair")),
        study.folder / "stair",
        Shard(0, 1),
        no_engine,
        (study.folder / "progress", "stair"),
    )
    assert marker.is_file()


def taken_over(study: Study, condition: str, other: Path, load: Callable[[], Engine]) -> Rows:
    """The rows of a condition in a run that reuses another one's answers."""
    trajectories, place = study.trajectories(condition), study.folder / condition
    progress = (study.folder / "progress", condition)
    run_shard(
        lambda _: list(study.trajectories(condition)),
        place,
        Shard(0, 1),
        load,
        progress,
        [other / "log"],
    )
    log = WorkLog(place / "log", other / "log")
    assert all(read_log(each, log)[1] for each in trajectories)
    return rows_of(trajectories)


def test_a_t1_that_another_run_answered_without_keeping_its_states_is_reconstructed(
    study: Study, tmp_path: Path
) -> None:
    """A condition with a T1 of its own takes Vanilla's where it is the same response; the bank lacks nothing."""
    study.sessions, study.samples = 3, 1
    expected = fresh(study, tmp_path / "alone").go("own_first", WatchedEngine(study.model))
    engine = WatchedEngine(study.model)
    rows = taken_over(fresh(study, tmp_path / "again"), "own_first", study.folder / "vanilla", lambda: engine)
    assert len(engine.requests) == 3 * 3, "no T1 was generated"
    assert tokens_of(rows) == tokens_of(expected)
    told = ("captured_tokens", "bank_tokens", "controlled_tokens")
    assert [[row[name] for name in told] for row in rows] == [[row[name] for name in told] for row in expected]
    assert {row["bank_source"] for row in rows if row["turn"] == 2} == {"replayed"}


def test_states_that_another_run_kept_are_none_where_nothing_reads(study: Study, tmp_path: Path) -> None:
    study.sessions = 3
    other = fresh(study, tmp_path / "other")
    other.go("own_first", WatchedEngine(study.model))
    rows = taken_over(fresh(study, tmp_path / "again"), "vanilla", other.folder / "own_first", no_engine)
    assert rows == in_order(
        [row for row in study.first_rows.values() if row["session_id"] in {r["session_id"] for r in rows}]
    )
    assert len(rows) == 3 * 2


def test_sealing_an_unfinished_condition_says_how_much_is_missing(study: Study) -> None:
    study.sessions = 2
    cut_off(study, "native", 11)
    with pytest.raises(ValueError, match=r"1 of 4 trajectories have not ended.*run the stage's shards again"):
        sealed(study, "native")


def test_the_number_of_shards_may_change_in_the_middle(study: Study, tmp_path: Path) -> None:
    study.samples = 1
    expected = study.go("stair", WatchedEngine(study.model))
    again = fresh(study, tmp_path / "again")
    engines: list[WatchedEngine] = []

    def shard(number: int, of: int, stop_after: int | None = None) -> None:
        def load() -> Engine:
            engines.append(WatchedEngine(study.model, stop_after=stop_after))
            return engines[-1]

        def share(_: bool) -> list[Trajectory]:
            return Shard(number, of).share(again.trajectories("stair"))

        progress = (again.folder / "progress", f"stair/{number}")
        run_shard(share, again.folder / "stair", Shard(number, of), load, progress)

    shard(0, 2)
    with pytest.raises(KeyboardInterrupt):
        shard(1, 2, stop_after=2)
    for number in range(3):
        shard(number, 3)
    assert sealed(again, "stair") == expected
    keys = [key for engine in engines for key in engine.requests]
    assert len(set(keys)) == 15
    assert len(keys) <= 15 + 4, "what was under way when the second shard died is asked for again, nothing else"


def test_shards_share_everything_out_once() -> None:
    items = list(range(11))
    for of in (1, 2, 3, 11, 20):
        parts = [Shard(shard, of).share(items) for shard in range(of)]
        assert sorted(item for part in parts for item in part) == items
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    with pytest.raises(ValueError, match="shard 3 does not exist among 3"):
        Shard(3, 3).share(items)


def lose_banks(study: Study, condition: str, how: str) -> int:
    """Deletes or damages every kept segment; how many there were."""
    files = list((study.folder / condition / "banks").glob("*.safetensors"))
    for path in files:
        if how == "deleted":
            path.unlink()
        else:
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(bytes(content))
    return len(files)


def tokens_of(rows: Rows) -> list[tuple[str, int, int, list[int]]]:
    return [(row["session_id"], row["sample"], row["turn"], row["response_ids"]) for row in rows]


@pytest.mark.parametrize("how", ["deleted", "damaged"])
def test_lost_states_are_made_again_and_the_row_says_so(study: Study, how: str, tmp_path: Path) -> None:
    study.sessions, study.samples = 3, 1
    expected = study.go("stair", WatchedEngine(study.model))
    again, dying = fresh(study, tmp_path / "again"), WatchedEngine(study.model, stop_after=3)
    with pytest.raises(KeyboardInterrupt):
        again.go("stair", dying)
    logged = [request for key, request in dying.requests.items() if key in again.log("stair")]
    answered = {(ids_digest(request.prompt_ids), request.seed) for request in logged}
    rows = [row for row in expected if (row["prompt_ids_sha256"], row["seed"]) in answered and row["turn"] > 1]
    last = {row["session_id"]: row["turn"] for row in rows}
    assert len(rows) == 3
    assert lose_banks(again, "stair", how) >= len(last)
    engine = WatchedEngine(study.model)
    rows = again.go("stair", engine)
    # Reconstructed states are not the decoded ones to the last bit, but near enough to draw the same tokens here.
    assert tokens_of(rows) == tokens_of(expected)
    for row in rows:
        if row["turn"] > 2:
            reconstructed = row["turn"] == last.get(row["session_id"], 1) + 1
            assert row["bank_source"] == ("replayed" if reconstructed else "decoded"), row
    assert any(each.read is not None for each in engine.reconstructions), "T2 is reconstructed under its own control"


def test_a_condition_with_lost_states_is_sealed_like_any_other(study: Study) -> None:
    study.sessions, study.samples = 3, 1
    cut_off(study, "stair", 3)
    assert lose_banks(study, "stair", "deleted")
    rows = study.go("stair", WatchedEngine(study.model))
    assert sealed(study, "stair") == rows
    # And cut off a second time, with what was kept since lost again.
    again = fresh(study, study.folder / "again")
    for _ in range(3):
        cut_off(again, "stair", 2)
        lose_banks(again, "stair", "deleted")
    rows = again.go("stair", WatchedEngine(study.model))
    assert sealed(again, "stair") == rows


def segment(seed: int, tokens: int = 4) -> Segment:
    generator = torch.Generator().manual_seed(seed)
    return Segment(LAYERS, *(torch.randn(2, 2, tokens, 16, generator=generator) for _ in range(2)))


def test_segments_are_kept_by_name(tmp_path: Path) -> None:
    one, other = segment(1), segment(2, tokens=0)
    store = BankStore(tmp_path / "banks")
    store.keep("a", one)
    store.keep("b", other)
    again = BankStore(tmp_path / "banks")
    for name, expected in (("a", one), ("b", other)):
        found = again.load(name)
        assert found is not None and found.digest == expected.digest
    again.forget(["a"])
    assert again.load("a") is None
    assert BankStore(tmp_path / "banks").load("b") is not None
    again.forget(["b", "never there"])
    assert list((tmp_path / "banks").iterdir()) == []


@pytest.mark.parametrize("study", ["qwen3"], indirect=True)
@pytest.mark.parametrize("stop", [SystemExit, ValueError, OSError])
def test_what_ended_in_one_step_is_kept_when_something_comes_between(
    study: Study, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    """Responses can end together; a signal, or another response's fault, comes after the first of them was logged."""
    study.sessions, study.samples = 4, 1
    plain = WatchedEngine(study.model, width=4)
    expected = study.go("native", plain)
    again = fresh(study, study.folder / "stopped")
    together: list[int] = []
    engine = WatchedEngine(study.model, width=4)
    draw = Batch.draw

    def counted(batch: Batch) -> Drawn:
        drawn = draw(batch)
        together.append(len(drawn.ended))
        return drawn

    monkeypatch.setattr(Batch, "draw", counted)

    def stop_where_two_ended() -> None:
        if together and together[-1] > 1:
            raise stop(28, "stopped")

    monkeypatch.setattr(Progress, "advance", lambda *_: stop_where_two_ended())
    with pytest.raises(stop):
        again.go("native", engine)
    logged = [key for key, record in again.log("native").items() if "response_ids" in record]
    assert len(logged) == sum(together), "every response that had ended is in the log"
    monkeypatch.undo()
    later = WatchedEngine(study.model, width=4)
    assert again.go("native", later) == expected
    assert not set(logged) & later.requests.keys()
