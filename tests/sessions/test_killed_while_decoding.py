"""SIGKILL in the middle of a decode, for real; and every other layout of the same trajectories: the same tokens."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from stair.engines.base import SamplingSettings
from stair.records.shards import Shard
from stair.sessions.renderer import Renderer
from stair.sessions.run import read_log, run_shard
from stair.sessions.trajectory import Trajectory
from tests.conftest import TOKENS
from tests.sessions.conftest import STOP_IDS
from tests.sessions.protocol_cases import Rows, Study, WatchedEngine, rows_of
from tests.sessions.test_noise_floor import tokens_of

Models = Callable[..., PreTrainedModel]
Tokenizers = Callable[..., PreTrainedTokenizerFast]


def layout(study: Study, folder: Path) -> Study:
    """The same study in a folder of its own."""
    return Study(
        study.model, study.renderer, folder, study.sessions, study.samples, study.first_rows, sampling=study.sampling
    )


def killed_at_step(study: Study, condition: str, step: int, width: int) -> None:
    """Runs a condition in a process that is killed while it decodes its `step`-th token, between two completions or not."""
    child = os.fork()
    if child == 0:
        engine = WatchedEngine(study.model, width=width)
        steps = 0

        def count(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            nonlocal steps
            steps += args[0].shape[:2] == (width, 1)
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)

        study.model.get_decoder().layers[2].mlp.register_forward_pre_hook(count)  # type: ignore[union-attr]
        try:
            study.go(condition, engine)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "it ended before it could be killed"


def in_shards(study: Study, condition: str, of: int, width: int, numbers: tuple[int, ...] | None = None) -> Rows:
    """The rows of these shards, of all where none are named."""
    numbers = tuple(range(of)) if numbers is None else numbers
    for number in numbers:

        def share(_: bool, number: int = number) -> list[Trajectory]:
            return Shard(number, of).share(study.trajectories(condition))

        run_shard(
            share,
            study.folder / condition,
            Shard(number, of),
            lambda: WatchedEngine(study.model, width=width),
            (study.folder / "progress", f"{condition}/{number}"),
        )
    found = [each for number in numbers for each in Shard(number, of).share(study.trajectories(condition))]
    assert all(read_log(each, study.log(condition))[1] for each in found)
    return rows_of(found)


@pytest.mark.parametrize(
    ("architecture", "dtype", "sampling"),
    [("qwen3", torch.float64, "greedy"), ("qwen3_5", torch.float32, "sampled")],
)
def test_tokens_are_the_same_alone_in_a_batch_of_16_killed_and_in_other_shards(
    small_model: Models,
    small_tokenizer: Tokenizers,
    tmp_path: Path,
    architecture: str,
    dtype: torch.dtype,
    sampling: str,
) -> None:
    law = SamplingSettings(temperature=0.0) if sampling == "greedy" else SamplingSettings(1.0, 0.95, 20, 0.0, 1.5)
    thinking = architecture == "qwen3_5"
    renderer = Renderer(small_tokenizer(thinking), thinking=thinking, stop_ids=STOP_IDS)
    study = Study(small_model(architecture, dtype), renderer, tmp_path / "whole", samples=2, sampling=law)
    study.answer_first()
    expected = study.go("stair", WatchedEngine(study.model, width=16))

    killed = layout(study, tmp_path / "killed")
    for step in (5, 12):
        killed_at_step(killed, "stair", step, width=16)
    assert 0 < len(killed.log("stair")) < 40, "some was finished, some was not"
    assert tokens_of(killed.go("stair", WatchedEngine(study.model, width=16))) == tokens_of(expected)

    alone = tokens_of(in_shards(layout(study, tmp_path / "alone"), "stair", of=10, width=16, numbers=(0, 7)))
    assert len(alone) == 2 * 4, "one trajectory a shard"
    assert all(each in tokens_of(expected) for each in alone)
    shards = layout(study, tmp_path / "shards")
    assert tokens_of(in_shards(shards, "stair", of=3, width=16)) == tokens_of(expected)
    assert max(max(row["response_ids"]) for row in expected) < TOKENS
