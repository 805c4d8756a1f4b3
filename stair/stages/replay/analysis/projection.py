"""The fixed Gaussian projections of appendices A.3 and A.6."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stair.statistics.named_random import named_generator

Floats = npt.NDArray[np.float64]


def gaussian_projection(width: int, hidden: int, *seed: str | int) -> Floats:
    """P: FP64 [width, hidden], independent N(0, 1 / width); a function of the seed and both sizes.

    Whitening and standardisation undo its scale.
    """
    return named_generator(*seed, width, hidden).standard_normal((width, hidden)) / np.sqrt(width)


def project(projection: Floats, values: npt.NDArray[np.floating]) -> Floats:
    """P v for [..., hidden] values, FP64 [..., width]."""
    return np.asarray(values.astype(np.float64, copy=False) @ projection.T)
