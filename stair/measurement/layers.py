"""The layers whose historical reads can be measured (appendix A.6). Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from stair.backbones.architecture import Architecture


def check_measured_layers(architecture: Architecture, layers: Sequence[int]) -> None:
    """Checks zero-based layers whose reads are set beside the next block's MLP output.

    Raises:
        ValueError: a layer does not exist, is not full attention, or is the last one.
    """
    for layer in layers:
        if layer not in architecture.full_attention_layers:
            allowed = ", ".join(map(str, architecture.full_attention_layers))
            raise ValueError(
                f"layer {layer} cannot be measured: it is not a full-attention layer of this {architecture.name}; those are "
                f"{allowed}"
            )
        if layer == architecture.layers - 1:
            raise ValueError(
                f"layer {layer} cannot be measured: it is the last, and the read is set beside the next block's MLP output"
            )
