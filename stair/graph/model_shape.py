"""The shape of a model, as far as its cost and its requests depend on it. Imports no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass

from stair.backbones.architecture import describe
from stair.backbones.parameters import total_parameters
from stair.backbones.published import CONFIGS
from stair.config.model import Config
from stair.config.paths import RunPaths

_WIDTH = {"bfloat16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Shape:
    """Sizes of a model."""

    parameters: int
    layers: int
    attention_layers: int
    """Layers with a key/value cache."""
    cache_numbers: int
    """Numbers that one of these layers caches for a token: its keys and values."""
    query_width: int
    """Query heads times their width."""
    hidden_size: int
    width: int
    """Bytes of a number."""
    known: bool = True
    """False: the model is neither fetched nor published here, or its config.json lacks a key. Its sizes are Qwen3-8B's."""

    @property
    def hybrid(self) -> bool:
        """Whether some layers have no cache."""
        return self.attention_layers < self.layers

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters."""
        return self.parameters * self.width

    @property
    def cache_bytes(self) -> int:
        """Bytes of a token's keys and values in all layers."""
        return self.attention_layers * self.cache_numbers * self.width

    @property
    def small(self) -> bool:
        """Whether it is one of the project's small models, by its size."""
        return self.parameters < 100_000_000


def shape_of(config: Config, paths: RunPaths, model: str) -> Shape:
    """A model's shape: that of the small model that the run trains, else by its folder, else as published."""
    settings = config.models[model]
    width = _WIDTH[settings.dtype]
    if (tiny := settings.tiny) is not None:
        inner = tiny.heads * tiny.head_dim
        layer = 4 * tiny.hidden_size * inner + 3 * tiny.hidden_size * tiny.ffn
        full = tiny.layers if tiny.architecture == "qwen3" else tiny.layers // 4
        return Shape(
            tiny.layers * layer, tiny.layers, full, 2 * tiny.kv_heads * tiny.head_dim, inner, tiny.hidden_size, width
        )
    try:
        content = json.loads((paths.model_folder(config, model) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = CONFIGS.get(model)
    content = content if isinstance(content, dict) else {}
    try:
        architecture, parameters = describe(content), total_parameters(content)
    except (KeyError, ValueError):  # preflight names the missing key
        return Shape(8_000_000_000, 36, 36, 2 * 8 * 128, 4096, 4096, width, known=False)
    return Shape(
        parameters,
        architecture.layers,
        len(architecture.full_attention_layers),
        2 * architecture.kv_heads * architecture.head_dim,
        architecture.query_heads * architecture.head_dim,
        architecture.hidden_size,
        width,
    )
