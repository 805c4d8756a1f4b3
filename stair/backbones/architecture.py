"""The facts of a model that the method needs, from the content of its config.json. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stair.backbones import qwen3, qwen3_5


@dataclass(frozen=True)
class Architecture:
    """The attention geometry of a decoder.

    `full_attention_layers` are zero-based; `head_dim` and `rotary_dim` count channels (RoPE turns the first `rotary_dim`
    of them); `gated` says that a sigmoid output gate acts before the output projection (the paper's g, Eq. 20);
    `context` is `max_position_embeddings` in tokens.
    """

    name: str
    layers: int
    full_attention_layers: tuple[int, ...]
    hidden_size: int
    query_heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    rope_theta: float
    gated: bool
    vocabulary: int
    context: int
    tied_embeddings: bool

    def check_controlled_layers(self, layers: Sequence[int]) -> None:
        """Raise ValueError unless every layer exists, is listed once and is a full-attention layer."""
        listed = list(layers)
        allowed = ", ".join(map(str, self.full_attention_layers))
        if not listed:
            raise ValueError(
                f"no controlled layer is given; the full-attention layers of this {self.name} are {allowed}"
            )
        for layer in listed:
            if listed.count(layer) > 1:
                raise ValueError(f"controlled layer {layer} is listed twice in {listed}")
            if not 0 <= layer < self.layers:
                raise ValueError(
                    f"controlled layer {layer} does not exist: this {self.name} has layers 0 to {self.layers - 1}"
                )
            if layer not in self.full_attention_layers:
                raise ValueError(
                    f"controlled layer {layer} is not a full-attention layer of this {self.name}; those are {allowed}"
                )


_READERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    model_type: module.read for module in (qwen3, qwen3_5) for model_type in module.MODEL_TYPES
}


def describe(config: Mapping[str, Any]) -> Architecture:
    """Return the Architecture that the content of a `config.json` describes.

    Knows Qwen3 (`qwen3`) and Qwen3.5 (`qwen3_5_text`, and the multimodal `qwen3_5` with its `text_config`).
    Raises ValueError for another model type, a missing key, or a RoPE that is scaled.
    """
    model_type = config.get("model_type")
    reader = _READERS.get(str(model_type))
    if reader is None:
        raise ValueError(f"unknown model_type {model_type!r} in the configuration; known are {', '.join(_READERS)}")
    try:
        return Architecture(**reader(config))
    except KeyError as error:
        raise ValueError(f"the configuration of this {model_type} model has no key {error.args[0]!r}") from None
    except TypeError as error:
        raise ValueError(f"the configuration of this {model_type} model has a value of another type: {error}") from None
