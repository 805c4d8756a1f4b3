"""The facts of a model that the method needs, from the content of its config.json. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stair.models.rope_settings import Llama3Scaling, read_llama3_scaling, read_rope
from stair.models.turn_markers import CHATML, LLAMA3, TurnMarkers


class Family(NamedTuple):
    """How an architecture differs from the others. The keys of `config.json` overrule the defaults."""

    model_types: tuple[str, ...]
    head_dim: int | None
    """The default; None: the hidden size divided by the heads."""
    rotated: float
    """The default share of each head's channels that RoPE turns."""
    full_attention_every: int
    """The default: of so many layers, the last one has full attention."""
    gated: bool
    """Whether the query projection gives, per head, the query and a sigmoid output gate."""
    markers: TurnMarkers
    """The markers of turns in its chat template."""


FAMILIES = {
    "llama": Family(("llama",), None, 1.0, 1, False, LLAMA3),
    "qwen3": Family(("qwen3",), 128, 1.0, 1, False, CHATML),
    "qwen3_5": Family(("qwen3_5_text", "qwen3_5"), 256, 0.25, 4, True, CHATML),
}
"""The architectures that the package knows."""


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

    Raises ValueError for an unknown model type, a missing key, or a RoPE of an unsupported type.
    """
    model_type = config.get("model_type")
    for name, family in FAMILIES.items():
        if model_type in family.model_types:
            try:
                return _read(name, family, config)
            except KeyError as error:
                raise ValueError(f"the configuration of this {model_type} model has no key {error.args[0]!r}") from None
            except TypeError as error:
                text = f"the configuration of this {model_type} model has a value of another type: {error}"
                raise ValueError(text) from None
    known = ", ".join(each for family in FAMILIES.values() for each in family.model_types)
    raise ValueError(f"unknown model_type {model_type!r} in the configuration; known are {known}")


def _read(name: str, family: Family, config: Mapping[str, Any]) -> Architecture:
    text = config.get("text_config", config)  # of a multimodal checkpoint
    layers, heads = int(text["num_hidden_layers"]), int(text["num_attention_heads"])
    hidden_size = int(text["hidden_size"])
    head_dim = int(text.get("head_dim") or family.head_dim or hidden_size // heads)
    theta, rotated = read_rope(text, default_fraction=family.rotated)
    every = int(text.get("full_attention_interval") or family.full_attention_every)
    if kinds := text.get("layer_types"):
        full = tuple(index for index, kind in enumerate(kinds) if kind == "full_attention")
    else:
        full = tuple(range(every - 1, layers, every))
    return Architecture(
        name=name,
        layers=layers,
        full_attention_layers=full,
        hidden_size=hidden_size,
        query_heads=heads,
        kv_heads=int(text.get("num_key_value_heads") or heads),
        head_dim=head_dim,
        rotary_dim=int(head_dim * rotated),
        rope_theta=theta,
        rope_scaling=read_llama3_scaling(text),
        gated=family.gated,
        vocabulary=int(text["vocab_size"]),
        context=int(text["max_position_embeddings"]),
        # Multimodal checkpoints may have the key at the root only.
        tied_embeddings=bool(text.get("tie_word_embeddings") or config.get("tie_word_embeddings", False)),
    )
