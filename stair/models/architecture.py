"""The facts of a model that the method needs, from the content of its config.json. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stair.models.architectures import BY_MODEL_TYPE
from stair.models.rope_settings import Llama3Scaling


@dataclass(frozen=True)
class Architecture:
    """The attention geometry of a decoder.

    `full_attention_layers` are zero-based; `head_dim` and `rotary_dim` count channels (RoPE turns the first `rotary_dim`
    of them, by `rope_theta` and, in Llama 3, `rope_scaling`); `gated` says that a sigmoid output gate acts before the
    output projection (the paper's g, Eq. 20); `context` is `max_position_embeddings` in tokens.
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
    rope_scaling: Llama3Scaling | None = None

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


def describe(config: Mapping[str, Any]) -> Architecture:
    """Return the Architecture that the content of a `config.json` describes.

    Knows the model types of the files in `stair/models/architectures`.
    Raises ValueError for another model type, a missing key, or a RoPE of an unsupported type.
    """
    model_type = config.get("model_type")
    module = BY_MODEL_TYPE.get(str(model_type))
    if module is None:
        raise ValueError(
            f"unknown model_type {model_type!r} in the configuration; known are {', '.join(BY_MODEL_TYPE)}"
        )
    try:
        return Architecture(**module.read(config))
    except KeyError as error:
        raise ValueError(f"the configuration of this {model_type} model has no key {error.args[0]!r}") from None
    except TypeError as error:
        raise ValueError(f"the configuration of this {model_type} model has a value of another type: {error}") from None
