"""The real SGLang server on a CPU, serving a small Qwen3 model with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from stair.config.engines import SGLangSettings
from stair.engines.sglang.engine import SGLangEngine
from tests.conftest import TOKENS, random_model
from tools.tiny_backbones import save_tokenizer

ENVIRONMENT = Path(__file__).parents[2] / ".venv-sglang-cpu"
CONTEXT = 512
ENDS = (TOKENS - 5, TOKENS - 3)
"""The ids of the end of a turn and of the text."""


@pytest.fixture(scope="session")
def model_folder(
    tmp_path_factory: pytest.TempPathFactory, small_tokenizer: Callable[..., PreTrainedTokenizerFast]
) -> Path:
    """A whole model folder. Its responses end by themselves after some hundred tokens."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = small_tokenizer(False)
    ends = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert tuple(sorted(ends)) == ENDS
    model = random_model("qwen3", torch.float32)
    model.config.eos_token_id, model.generation_config.eos_token_id = ends[0], ends
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    return folder


@pytest.fixture(scope="module")
def engine(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SGLangEngine]:
    """One engine, and so one server, for a module's tests.

    Its cache holds 16 prompts of a hundred tokens, but not their responses; it begins as many as it can.
    """
    settings = SGLangSettings(
        environment=str(ENVIRONMENT),
        device="cpu",
        attention="torch_native",
        concurrency=16,
        cache_tokens=1700,
        arguments=("--schedule-conservativeness", "0.01"),
        start_seconds=280,
    )
    log = tmp_path_factory.mktemp("server") / "server.log"
    with closing(SGLangEngine(settings, model_folder, "float32", tokens=TOKENS, log=log)) as made:
        yield made
