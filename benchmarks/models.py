"""Models with random weights for measurements: time and memory do not depend on the weights."""

from __future__ import annotations

from typing import Any

import torch

from stair.backbones.published import CONFIGS, CONTROLLED_LAYERS

_TINY: dict[str, Any] = {
    "vocab_size": 1024,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
TINY: dict[str, dict[str, Any]] = {
    "tiny-qwen3": {**_TINY, "model_type": "qwen3", "head_dim": 16},
    "tiny-qwen3.5": {
        **_TINY,
        "model_type": "qwen3_5_text",
        "head_dim": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
    },
}
SHAPES = {**TINY, **CONFIGS}
"""Keys of a config.json by shape: the paper's backbones, and small models for a CPU."""


def controlled_layers(shape: str) -> tuple[int, ...]:
    return (3, 7, 11) if shape in TINY else CONTROLLED_LAYERS


def random_model(config: dict[str, Any], device: str, dtype: torch.dtype) -> Any:
    """Return a frozen model of this configuration in eval mode, its weights drawn on the device."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=dtype)
    return model.eval().requires_grad_(False)
