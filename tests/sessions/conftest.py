"""A small study of both architectures, and one whose conditions have all been run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from stair.sessions.renderer import Renderer
from tests.conftest import random_model
from tests.sessions.protocol_cases import Rows, Study, WatchedEngine

STOP_IDS = (*range(24), 256)
"""Ordinary ids among them, so that random responses end at many lengths."""

Models = Callable[..., PreTrainedModel]
Tokenizers = Callable[..., PreTrainedTokenizerFast]


def made(architecture: str, model: Models, tokenizer: Tokenizers, folder: Path) -> Study:
    """A study with the answers of Vanilla; Qwen3 answers at once, Qwen3.5 thinks first."""
    thinking = architecture == "qwen3_5"
    renderer = Renderer(tokenizer(thinking), thinking=thinking, stop_ids=STOP_IDS)
    if thinking:
        # Louder than other tokens, so that some of the random answers end their thinking.
        network = random_model(architecture)
        with torch.no_grad():
            network.get_input_embeddings().weight[renderer.end_of_thinking] *= 2
    else:
        network = model(architecture)
    study = Study(network, renderer, folder)
    study.answer_first()
    return study


@pytest.fixture(scope="session")
def answered_study(
    small_model: Models, small_tokenizer: Tokenizers, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Study]:
    """Gives a study by architecture, each made once for all files; nobody may change it."""
    return cache(lambda name: made(name, small_model, small_tokenizer, tmp_path_factory.mktemp("study")))


def copied(study: Study, folder: Path) -> Study:
    shutil.copytree(study.folder, folder, dirs_exist_ok=True)
    return replace(study, folder=folder, first_rows=deepcopy(study.first_rows), layout={}, failed=[])


@pytest.fixture(params=["qwen3_5"])
def study(request: pytest.FixtureRequest, answered_study: Callable[[str], Study], tmp_path: Path) -> Study:
    """A copy that a test may change, but for the model. The hybrid has all states that can be lost."""
    return copied(answered_study(request.param), tmp_path)


@dataclass
class Finished:
    """A study with the rows of every condition, and the engines that generated them."""

    study: Study
    rows: dict[str, Rows]
    engines: dict[str, WatchedEngine]


@pytest.fixture(scope="session")
def finished_study(
    answered_study: Callable[[str], Study], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Finished]:
    """Gives a finished study by architecture, each made once for all files."""

    @cache
    def of(architecture: str) -> Finished:
        study = copied(answered_study(architecture), tmp_path_factory.mktemp("study"))
        engines = {condition: WatchedEngine(study.model) for condition in ("native", "stair", "own_first")}
        rows = {condition: study.go(condition, engine) for condition, engine in engines.items()}
        return Finished(study, {"vanilla": list(study.first_rows.values()), **rows}, engines)

    return of


@pytest.fixture(params=["qwen3", "qwen3_5"])
def finished(request: pytest.FixtureRequest, finished_study: Callable[[str], Finished]) -> Finished:
    """A study that nobody may change."""
    return finished_study(request.param)
