"""Models of random weights at the published shapes, one reduced shape of each for a CPU, and histories of random tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from stair.engines.identity import attention_path
from stair.models.attention import implementation
from stair.models.device_and_dtype import resolved_device
from stair.models.published import CONFIGS, CONTROLLED_LAYERS
from stair.records.seeds import seed_of
from stair.stages.runtime.measure import TimedHistory

_REDUCED: dict[str, Any] = {
    "vocab_size": 1024,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "tie_word_embeddings": True,
}
_REDUCED_LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
_REDUCED_LAYERS = (3, 7, 11)
REDUCED = 32
"""What divides all numbers of tokens beside a reduced shape."""


def shape_config(model: str, *, reduced: bool) -> dict[str, Any]:
    """The config.json of a model's published shape, or of the reduced one. Raises ValueError for an unknown model."""
    if model not in CONFIGS:
        raise ValueError(
            f"runtime.models: no shape of '{model}' is known (there are: {', '.join(CONFIGS)}); set runtime.synthetic "
            "to null to measure a model's own weights"
        )
    published = CONFIGS[model]
    if not reduced:
        return dict(published)
    linear = _REDUCED_LINEAR if "linear_num_key_heads" in published else {}
    return {**published, **_REDUCED, **linear}


def controlled_layers(*, reduced: bool) -> tuple[int, ...]:
    """Return the controlled layers, full attention in both architectures."""
    return _REDUCED_LAYERS if reduced else CONTROLLED_LAYERS


def random_model(config: dict[str, Any], device: str, dtype: torch.dtype, attention: str = "auto") -> Any:
    """Return a frozen model of this configuration in eval mode, its weights drawn on the device."""
    from transformers import AutoConfig, AutoModelForCausalLM

    device = resolved_device(device)
    attention = attention_path(attention, str(dtype).removeprefix("torch."), device)
    attention = implementation(attention, dtype, device)
    devices = [torch.cuda.current_device()] if device == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.device(device):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(**config), dtype=dtype, attn_implementation=attention
        )
    return model.eval().requires_grad_(False)


def random_history(name: str, entries: int, *, prompt: int, question: int, vocabulary: int, seed: str) -> TimedHistory:
    """Return a history of random ids below `vocabulary`, a function of the names of the seed and the history.

    The T2 prompt has `prompt` tokens, the last `question` of which are its control span; the T1 prompt has as many as the span.
    """
    drawn = np.random.default_rng(seed_of(seed, name))
    # The token drawn last has no state, so a response has one token more than entries.
    first, response, ids = (
        tuple(drawn.integers(vocabulary, size=size).tolist()) for size in (question, entries + 1, prompt)
    )
    return TimedHistory(name, first, response, ids, (prompt - question, prompt), entries)
