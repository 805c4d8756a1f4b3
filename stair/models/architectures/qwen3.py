"""Qwen3: every layer attends in full, queries and keys are normalised per head, RoPE turns every channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stair.models.rope_settings import read_rope
from stair.models.turn_markers import CHATML

MODEL_TYPES = ("qwen3",)
MARKERS = CHATML


def read(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an Architecture; KeyError names a key that is missing."""
    layers = int(config["num_hidden_layers"])
    # Transformers' own default is 128, not hidden_size / heads.
    head_dim = int(config.get("head_dim") or 128)
    theta, fraction = read_rope(config, default_theta=10_000.0, default_fraction=1.0)
    kinds = config.get("layer_types") or ["full_attention"] * layers
    return {
        "name": "qwen3",
        "layers": layers,
        "full_attention_layers": tuple(index for index, kind in enumerate(kinds) if kind == "full_attention"),
        "hidden_size": int(config["hidden_size"]),
        "query_heads": int(config["num_attention_heads"]),
        "kv_heads": int(config["num_key_value_heads"]),
        "head_dim": head_dim,
        "rotary_dim": int(head_dim * fraction),
        "rope_theta": theta,
        "gated": False,
        "vocabulary": int(config["vocab_size"]),
        "context": int(config["max_position_embeddings"]),
        "tied_embeddings": bool(config.get("tie_word_embeddings", False)),
    }
