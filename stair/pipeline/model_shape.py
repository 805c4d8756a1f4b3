"""The shape of a model, as far as its cost and its requests depend on it. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.models.architecture import describe
from stair.models.parameters import total_parameters
from stair.models.published import CONFIGS

_WIDTH = {"bfloat16": 2, "float32": 4, "float64": 8}
_UNKNOWN = {
    **CONFIGS["qwen3-4b-instruct"],
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "tie_word_embeddings": False,
}  # Qwen3-8B


@dataclass(frozen=True)
class Shape:
    """Sizes of a model."""

    parameters: int
    layers: int
    attention_layers: int
    """Layers with a key/value cache."""
    cache_numbers: int
    """Numbers that one of these layers caches for a token."""
    hidden_size: int
    width: int
    """Bytes of a number."""
    config: Mapping[str, Any]
    """The keys of its config.json; none for a small model that the run trains."""
    known: bool = True
    """False if the model is neither fetched nor published here. Its sizes are Qwen3-8B's."""

    @property
    def hybrid(self) -> bool:
        """Whether some layers have no cache."""
        return self.attention_layers < self.layers

    @property
    def weight_bytes(self) -> int:
        return self.parameters * self.width

    @property
    def cache_bytes(self) -> int:
        """Bytes of a token's keys and values in all layers."""
        return self.attention_layers * self.cache_numbers * self.width

    @property
    def small(self) -> bool:
        return self.parameters < 100_000_000


def shape_of(config: Config, paths: RunPaths, model: str) -> Shape:
    """The shape of the small model that the run trains, else from the model's folder, else as published."""
    settings = config.models[model]
    width = _WIDTH[settings.dtype]
    if (tiny := settings.tiny) is not None:
        inner = tiny.heads * tiny.head_dim
        layer = 4 * tiny.hidden_size * inner + 3 * tiny.hidden_size * tiny.ffn
        full, cached = len(tiny.full_attention_layers), 2 * tiny.kv_heads * tiny.head_dim
        return Shape(tiny.layers * layer, tiny.layers, full, cached, tiny.hidden_size, width, {})
    try:
        content = json.loads((paths.model_folder(config, model) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = CONFIGS.get(model)
    known = True
    try:
        architecture, parameters = describe(content), total_parameters(content)
    except (AttributeError, KeyError, TypeError, ValueError):  # preflight names the missing key
        known, content = False, _UNKNOWN
        architecture, parameters = describe(content), total_parameters(content)
    return Shape(
        parameters,
        architecture.layers,
        len(architecture.full_attention_layers),
        2 * architecture.kv_heads * architecture.head_dim,
        architecture.hidden_size,
        width,
        content,
        known,
    )
