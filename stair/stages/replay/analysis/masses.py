"""Attention masses: each source category's share, by layer (Eq. 12, appendix A.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def history_masses(masses: npt.NDArray[np.floating]) -> Floats:
    """The median over current problems within each history.

    Args:
        masses: [problems, histories, ..., categories], FP32 or FP64.

    Returns:
        FP64 [histories, ..., categories]. Each layer and category has a median of its own.
    """
    return np.asarray(np.median(masses.astype(np.float64), axis=0))


def median_masses(by_history: Floats) -> Floats:
    """The median over histories of `history_masses` [histories, ...]; the categories of a layer need not sum to one."""
    return np.asarray(np.median(by_history, axis=0))
