"""The published shapes of the paper's three backbones and of the GPU smoke run's, as the keys of a config.json. Imports no torch.

`describe(CONFIGS[key])` gives the Architecture; `transformers.AutoConfig.for_model(**CONFIGS[key])` a configuration from which
a model of that shape can be built without its weights. The Qwen3.5 entries are the text part of their checkpoints.
"""

from __future__ import annotations

from typing import Any

CONTROLLED_LAYERS = (3, 11, 19)

_QWEN3_5: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "vocab_size": 248_320,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_value_head_dim": 128,
    "linear_num_value_heads": 32,
    "max_position_embeddings": 262_144,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000_000.0,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
}

CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3-4b-instruct": {
        "model_type": "qwen3",
        "vocab_size": 151_936,
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 262_144,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5_000_000.0},
        "tie_word_embeddings": True,
    },
    "qwen3.5-4b": {**_QWEN3_5, "hidden_size": 2560, "intermediate_size": 9216, "tie_word_embeddings": True},
    "qwen3.5-9b": {**_QWEN3_5, "hidden_size": 4096, "intermediate_size": 12288, "tie_word_embeddings": False},
    "qwen3-0.6b": {
        "model_type": "qwen3",
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "tie_word_embeddings": True,
    },
}
