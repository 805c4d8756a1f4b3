"""The shapes that measurements know by name. Weights are random: time and memory do not depend on them."""

from __future__ import annotations

from typing import Any

from stair.models.published import CONFIGS
from stair.stages.runtime import shapes

TINY: dict[str, dict[str, Any]] = {
    "tiny-qwen3": shapes.shape_config("qwen3-4b-instruct", reduced=True),
    "tiny-qwen3.5": shapes.shape_config("qwen3.5-4b", reduced=True),
}
SHAPES = {**TINY, **CONFIGS}
"""Keys of a config.json by shape: small ones for a CPU, and those of the paper's backbones."""


def controlled_layers(shape: str) -> tuple[int, ...]:
    return shapes.controlled_layers(reduced=shape in TINY)
