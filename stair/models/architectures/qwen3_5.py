"""Qwen3.5: one layer in four attends in full, with a sigmoid output gate; the others are Gated DeltaNet.

RoPE turns the first quarter of each head's channels. The query projection gives, per head, the query and the gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stair.models.rope_settings import read_rope
from stair.models.turn_markers import CHATML

MODEL_TYPES = ("qwen3_5_text", "qwen3_5")
MARKERS = CHATML


def read(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an Architecture; KeyError names a key that is missing."""
    text = config["text_config"] if config["model_type"] == "qwen3_5" else config
    layers = int(text["num_hidden_layers"])
    head_dim = int(text.get("head_dim") or 256)
    theta, fraction = read_rope(text, default_theta=10_000.0, default_fraction=0.25)
    every = int(text.get("full_attention_interval") or 4)
    kinds = text.get("layer_types") or [
        "full_attention" if (index + 1) % every == 0 else "linear_attention" for index in range(layers)
    ]
    return {
        "name": "qwen3_5",
        "layers": layers,
        "full_attention_layers": tuple(index for index, kind in enumerate(kinds) if kind == "full_attention"),
        "hidden_size": int(text["hidden_size"]),
        "query_heads": int(text["num_attention_heads"]),
        "kv_heads": int(text["num_key_value_heads"]),
        "head_dim": head_dim,
        "rotary_dim": int(head_dim * fraction),
        "rope_theta": theta,
        "gated": True,
        "vocabulary": int(text["vocab_size"]),
        "context": int(text["max_position_embeddings"]),
        # Multimodal checkpoints may write the key at the root only.
        "tied_embeddings": bool(text.get("tie_word_embeddings") or config.get("tie_word_embeddings", False)),
    }
