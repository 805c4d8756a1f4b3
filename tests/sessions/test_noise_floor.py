"""Conditions that ask Native again (A/A): in FP32 and above nothing may differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from stair.records.shards import Shard
from stair.sessions.renderer import Renderer
from stair.sessions.run import read_log, run_shard
from stair.sessions.trajectory import Trajectory
from tests.sessions.conftest import STOP_IDS
from tests.sessions.protocol_cases import Rows, Study, WatchedEngine, rows_of

Models = Callable[..., PreTrainedModel]
Tokenizers = Callable[..., PreTrainedTokenizerFast]


def tokens_of(rows: Rows) -> list[tuple[str, int, int, list[int], str]]:
    return [(row["session_id"], row["sample"], row["turn"], row["response_ids"], row["finish_reason"]) for row in rows]


@pytest.mark.parametrize(("architecture", "dtype"), [("qwen3", torch.float64), ("qwen3_5", torch.float32)])
def test_the_readout_times_zero_gives_natives_tokens(
    small_model: Models, small_tokenizer: Tokenizers, tmp_path: Path, architecture: str, dtype: torch.dtype
) -> None:
    """Token for token, although capture, reconstruction, banks and reads all happen; STAIR itself answers otherwise."""
    thinking = architecture == "qwen3_5"
    renderer = Renderer(small_tokenizer(thinking), thinking=thinking, stop_ids=STOP_IDS)
    study = Study(small_model(architecture, dtype), renderer, tmp_path, samples=1)
    study.answer_first()
    native = study.go("native", WatchedEngine(study.model))
    engine = WatchedEngine(study.model)
    null = study.go("stair_null", engine)
    assert tokens_of(null) == tokens_of(native)
    assert tokens_of(study.go("stair", WatchedEngine(study.model))) != tokens_of(native)
    read = [row for row in null if row["turn"] > 1 and row["bank_tokens"]]
    assert len(read) > 10
    assert all(row["controlled_tokens"] > 0 and row["readout_norm"] == 0.0 for row in read)
    assert len(engine.reconstructions) == 5
    reads = [request.read for request in engine.requests.values()]
    assert all(read is not None and read.specification.variant == "zero" for read in reads)


def test_native_again_in_other_batches_and_shards_gives_natives_tokens(study: Study, tmp_path: Path) -> None:
    expected = study.go("native", WatchedEngine(study.model))
    again = Study(study.model, study.renderer, tmp_path / "again", study.sessions, study.samples, study.first_rows)
    for number in range(3):

        def share(_: bool, number: int = number) -> list[Trajectory]:
            return Shard(number, 3).share(again.trajectories("native"))

        run_shard(
            share,
            again.folder / "native",
            Shard(number, 3),
            lambda: WatchedEngine(study.model, width=7, prefill=2),
            (again.folder / "progress", f"native/{number}"),
        )
    found = again.trajectories("native")
    assert all(read_log(each, again.log("native"))[1] for each in found)
    assert tokens_of(rows_of(found)) == tokens_of(expected)


def test_what_asks_again_is_asked_anew_in_another_layout(study: Study) -> None:
    """Its log is no help then: what was answered in other batches is not what is to be measured."""

    def keys(**layout: object) -> set[str]:
        study.layout = layout
        return {each.advance() for each in study.trajectories("native")}

    native, wide, narrow = keys(), keys(repeats="native", batch_width=12), keys(repeats="native", batch_width=7)
    assert len(native | wide | narrow) == 3 * 5 * 2
    assert keys(repeats="native", batch_width=12) == wide
