"""The layers whose attention masses and historical reads can be measured (appendices A.2 and A.6). Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from stair.models.architecture import Architecture


def check_attention_layer(architecture: Architecture, layer: int) -> None:
    """Raises ValueError unless the masses of this zero-based layer can be measured: it exists and is full attention."""
    if layer not in architecture.full_attention_layers:
        allowed = ", ".join(map(str, architecture.full_attention_layers))
        raise ValueError(
            f"layer {layer} cannot be measured: it is not a full-attention layer of this {architecture.name}; those are "
            f"{allowed}"
        )


def check_measured_layers(architecture: Architecture, layers: Sequence[int]) -> None:
    """Raises ValueError unless these zero-based layers are full attention and have a next block, whose MLP output is measured."""
    for layer in layers:
        check_attention_layer(architecture, layer)
        if layer == architecture.layers - 1:
            raise ValueError(
                f"layer {layer} cannot be measured: it is the last, and the read is set beside the next block's MLP output"
            )
