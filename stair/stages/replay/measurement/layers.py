"""The layers whose attention masses and historical reads can be measured (appendices A.2 and A.6). Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from stair.models.architecture import Architecture


def check_attention_layer(architecture: Architecture, layer: int) -> None:
    """Checks a zero-based layer whose attention masses are measured.

    Raises:
        ValueError: the layer does not exist or is not full attention.
    """
    if layer not in architecture.full_attention_layers:
        allowed = ", ".join(map(str, architecture.full_attention_layers))
        raise ValueError(
            f"layer {layer} cannot be measured: it is not a full-attention layer of this {architecture.name}; those are "
            f"{allowed}"
        )


def check_measured_layers(architecture: Architecture, layers: Sequence[int]) -> None:
    """Checks zero-based layers whose reads are set beside the next block's MLP output.

    Raises:
        ValueError: a layer does not exist, is not full attention, or is the last one.
    """
    for layer in layers:
        check_attention_layer(architecture, layer)
        if layer == architecture.layers - 1:
            raise ValueError(
                f"layer {layer} cannot be measured: it is the last, and the read is set beside the next block's MLP output"
            )
