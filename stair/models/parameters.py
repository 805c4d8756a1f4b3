"""The number of parameters of a controller, an adapter or a backbone, from a model's config.json. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stair.models.architecture import describe


def controller_parameters(config: Mapping[str, Any], layers: Sequence[int]) -> int:
    """Parameters of STAIR's normals, or of the bank-free controller's scales: layers x query heads x head dim."""
    architecture = describe(config)
    return len(layers) * architecture.query_heads * architecture.head_dim


def lora_parameters(config: Mapping[str, Any], rank: int) -> int:
    """Parameters of LoRA on the seven projections of every layer of a Qwen3 model (appendix C.1)."""
    if config["model_type"] != "qwen3":
        raise ValueError(f"LoRA's parameters are counted for Qwen3 only, not for {config['model_type']}")
    hidden, ffn = int(config["hidden_size"]), int(config["intermediate_size"])
    queries = int(config["num_attention_heads"]) * int(config["head_dim"])
    keys = int(config["num_key_value_heads"]) * int(config["head_dim"])
    ends = 2 * (hidden + queries) + 2 * (hidden + keys) + 3 * (hidden + ffn)
    return rank * ends * int(config["num_hidden_layers"])
