"""State displacement: how far a history moves a current problem's states (Eq. 1, appendix A.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def displacement(states: npt.NDArray[np.floating], references: npt.NDArray[np.floating]) -> Floats:
    """d(x, H) = h(x | H) - h(x | no history).

    Args:
        states: [problems, histories, hidden] one layer's pooled states, FP32 or FP64.
        references: [problems, hidden] the same without history.

    Returns:
        FP64 [problems, histories, hidden].

    Raises:
        ValueError: the shapes differ.
    """
    if states.ndim != 3 or references.shape != (states.shape[0], states.shape[2]):
        raise ValueError(f"states {states.shape} and references {references.shape} are not of the same problems")
    return np.subtract(states, references[:, None], dtype=np.float64)


def displacement_norms(displacements: Floats) -> Floats:
    """The Euclidean norm of each cell's displacement: [problems, histories, hidden] to [problems, histories]."""
    return np.sqrt(np.einsum("xhi,xhi->xh", displacements, displacements))


def median_displacement(norms: Floats) -> float:
    """The median over all cells at once of `displacement_norms` [problems, histories] (Figure 2B)."""
    return float(np.median(norms))
