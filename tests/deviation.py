"""How far captured states are from others of the same tokens."""

from __future__ import annotations

import torch

from stair.method import Segment


def deviation(reconstructed: Segment, expected: Segment) -> float:
    """Return the largest relative Frobenius distance, over layers, of keys and of values from those expected.

    Raises ValueError unless both segments have the same tokens of the same layers.
    """
    if (reconstructed.layers, reconstructed.keys.shape) != (expected.layers, expected.keys.shape):
        raise ValueError(
            f"segments of layers {reconstructed.layers}, {list(reconstructed.keys.shape)} and {expected.layers}, "
            f"{list(expected.keys.shape)} cannot be compared"
        )
    distances = [
        (one.double() - other.double()).norm() / other.double().norm()
        for pair in ((reconstructed.keys, expected.keys), (reconstructed.values, expected.values))
        for one, other in zip(*pair, strict=True)
    ]
    return float(torch.stack(distances).max()) if reconstructed.tokens else 0.0
