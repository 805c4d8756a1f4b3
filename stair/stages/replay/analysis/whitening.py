"""Shared whitening of projected coordinates, fold by fold (appendix A.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stair.stages.replay.analysis.folds import Fold

Floats = npt.NDArray[np.float64]


def whitened(projected: Floats, folds: Sequence[Fold], *, rho: float) -> tuple[Floats, ...]:
    """Coordinates by (Sigma + r I)^(-1/2), r = rho tr(Sigma) / d, from a fold's candidates under all histories.

    Sigma's normaliser scales all distances alike, so it changes no neighborhood; here it is the number of cells.

    Args:
        projected: FP64 [problems, histories, d] projected coordinates under all histories of the group.
        folds: the folds of the problems.
        rho: the ridge, relative to the mean of Sigma's diagonal.

    Returns:
        FP64 [problems, histories, d] for each fold, anchors and candidates alike.

    Raises:
        ValueError: the candidates do not vary.
    """
    return tuple(_whiten(projected, fold, rho) for fold in folds)


def _whiten(projected: Floats, fold: Fold, rho: float) -> Floats:
    width = projected.shape[-1]
    cells = projected[fold.candidates].reshape(-1, width)
    mean = cells.mean(axis=0)
    centered = cells - mean
    covariance = centered.T @ centered / len(cells)
    ridge = rho * np.trace(covariance) / width
    if not ridge > 0:
        raise ValueError("the candidates' coordinates do not vary, so they cannot be whitened")
    values, vectors = np.linalg.eigh(covariance)
    # Rounding can leave a null direction below zero.
    transform = (vectors / np.sqrt(np.maximum(values, 0) + ridge)) @ vectors.T
    return np.asarray((projected - mean) @ transform)
