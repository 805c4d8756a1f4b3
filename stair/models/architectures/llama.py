"""Llama 3: every layer attends in full, queries and keys are not normalised, RoPE may be scaled by frequency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stair.models.rope_settings import read_llama3_scaling, read_rope
from stair.models.turn_markers import TurnMarkers

MODEL_TYPES = ("llama",)
MARKERS = TurnMarkers(
    start="<|start_header_id|>",
    after_role="<|end_header_id|>\n\n",
    end="<|eot_id|>",
    opening="<|begin_of_text|>",
    others=("<|end_header_id|>", "<|begin_of_text|>"),
)


def read(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an Architecture; KeyError names a key that is missing."""
    layers, heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
    head_dim = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
    theta, fraction = read_rope(config, default_theta=10_000.0, default_fraction=1.0, supported=("default", "llama3"))
    return {
        "name": "llama",
        "layers": layers,
        "full_attention_layers": tuple(range(layers)),
        "hidden_size": int(config["hidden_size"]),
        "query_heads": heads,
        "kv_heads": int(config.get("num_key_value_heads") or heads),
        "head_dim": head_dim,
        "rotary_dim": int(head_dim * fraction),
        "rope_theta": theta,
        "rope_scaling": read_llama3_scaling(config),
        "gated": False,
        "vocabulary": int(config["vocab_size"]),
        "context": int(config["max_position_embeddings"]),
        "tied_embeddings": bool(config.get("tie_word_embeddings", False)),
    }
