"""Small real things that the tests share: a tokenizer trained on the spot, random models of both architectures."""

from __future__ import annotations

import gc
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from stair.sessions.renderer import Renderer
from tests.shared import FOLDERS
from tools.tiny_backbones import train_tokenizer

torch.set_num_threads(1)

# The same examples every time: a failure that comes and goes helps nobody.
hypothesis.settings.register_profile("stair", derandomize=True, deadline=None)
hypothesis.settings.load_profile("stair")


@pytest.fixture(scope="session", autouse=True)
def _one_folder_for_all_workers(tmp_path_factory: pytest.TempPathFactory) -> None:
    temporary = tmp_path_factory.getbasetemp()
    FOLDERS[:] = [temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary]


def pytest_collection_finish() -> None:
    """Exempts libraries and test modules from garbage collection, which an engine that runs out of memory starts."""
    gc.collect()
    gc.freeze()


TOKENS = 300
"""Ids of the small tokenizer."""

VOCABULARY = 320
"""Rows of the models' output layer: padded beyond the tokenizer, as Qwen's are."""

LAYERS = (1, 3)
"""Controlled layers of the small models; full attention in both architectures."""

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
"""A scaled RoPE that leaves some channels of the small models as they are, scales some, and has some between."""

_TEXTS = [
    "user\n",
    "assistant\n",
    *(
        f"What is {a} + {b}? The sum of {a} and {b} is {a + b}, so \\boxed{{{a + b}}}."
        for a in range(9)
        for b in range(9)
    ),
]
_SHARED: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


def random_model(architecture: str, dtype: torch.dtype = torch.float32, **changes: Any) -> PreTrainedModel:
    """A frozen model in eval mode with random weights, large enough that every part of it matters."""
    shared = {**_SHARED, **changes}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: PreTrainedModel
        if architecture == "qwen3":
            model = Qwen3ForCausalLM(Qwen3Config(**shared, rope_parameters={"rope_type": "default", "rope_theta": 1e4}))
        elif architecture == "llama":
            model = LlamaForCausalLM(LlamaConfig(**(shared | {"rope_parameters": LLAMA3_ROPE})))
        else:
            hybrid = {
                "layer_types": ["full_attention" if layer % 2 else "linear_attention" for layer in range(4)],
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
                "linear_num_key_heads": 2,
                "linear_num_value_heads": 4,
                "linear_key_head_dim": 8,
                "linear_value_head_dim": 8,
            }
            config = Qwen3_5TextConfig(**(hybrid | shared))
            model = Qwen3_5ForCausalLM(config)
        for parameter in model.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.2)
    return model.to(dtype).eval().requires_grad_(False)


@pytest.fixture(scope="session")
def small_model() -> Callable[..., PreTrainedModel]:
    """Gives a random model by architecture (qwen3, qwen3_5, llama) and precision, each made once; nobody may change it."""
    made: dict[tuple[str, torch.dtype], PreTrainedModel] = {}

    def model(architecture: str = "qwen3", dtype: torch.dtype = torch.float32) -> PreTrainedModel:
        if (architecture, dtype) not in made:
            made[architecture, dtype] = random_model(architecture, dtype)
        return made[architecture, dtype]

    return model


@pytest.fixture(scope="session")
def small_tokenizer() -> Callable[..., PreTrainedTokenizerFast]:
    """Gives the small ChatML tokenizer, with or without thinking; nobody may change it."""
    made = {thinking: train_tokenizer(_TEXTS, vocabulary=TOKENS, thinking=thinking) for thinking in (False, True)}
    assert {len(tokenizer) for tokenizer in made.values()} == {TOKENS}
    return lambda thinking=False: made[thinking]


@pytest.fixture(scope="session")
def renderer(small_tokenizer: Callable[..., PreTrainedTokenizerFast]) -> Renderer:
    """Renders without thinking; responses end with the end of a turn or of the text."""
    return _renderer(small_tokenizer(False), thinking=False)


@pytest.fixture(scope="session")
def thinking_renderer(small_tokenizer: Callable[..., PreTrainedTokenizerFast]) -> Renderer:
    """Renders in thinking mode."""
    return _renderer(small_tokenizer(True), thinking=True)


def _renderer(tokenizer: PreTrainedTokenizerFast, *, thinking: bool) -> Renderer:
    stop = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    return Renderer(tokenizer, thinking=thinking, stop_ids=stop)
