"""The decomposition of resampled histories, from inner products of stored interaction responses (appendix A.3).

In a resample, history H occurs w(H) times among M. Over the cells so weighted, mu*, a*, b* and e* are those of Eq. 2. Since
mu, a(x) and b(H) of all cells are parts of mu*, a* and b*, and e sums to zero over problems,

    e*(x, H) = e(x, H) - e_w(x),   e_w(x) = sum over H' of w(H') e(x, H') / M.

So energies and distances of e* follow exactly from inner products of e, without new vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stair.stages.replay.analysis.neighborhoods import Fold, first_by_distance
from stair.stages.replay.analysis.random_by_name import Ints

Floats = npt.NDArray[np.float64]


def interaction_percentages(raw: Floats, interaction: Floats, copies: Ints) -> Floats:
    """[resamples] the interaction's share of each resample's energy, in percent.

    Args:
        raw: FP64 [problems, histories, hidden] displacements.
        interaction: FP64 [problems, histories, hidden] their interaction over all cells.
        copies: [resamples, histories].
    """
    total = np.einsum("xhi,xhi->h", raw, raw)
    products = np.einsum("xhi,xgi->hg", interaction, interaction, optimize=True)
    weights = copies.astype(np.float64)
    own = weights @ np.diag(products)
    removed = np.einsum("rh,hg,rg->r", weights, products, weights, optimize=True) / weights.sum(axis=1)
    return np.asarray(100 * (own - removed) / (weights @ total))


class ResampledInteraction:
    """Neighborhoods of e* in resamples, for the anchors of `folds`.

    `interaction` is FP64 [problems, histories, width], over all cells, in any coordinates.
    """

    def __init__(self, interaction: Floats, folds: Sequence[Fold]) -> None:
        self._shape = problems, histories, width = interaction.shape
        self._folds = folds
        cells = interaction.reshape(problems * histories, width)
        self._products = cells @ cells.T
        """[problems * histories, problems * histories]"""
        every = np.arange(histories)
        self._own = self._products.reshape(problems, histories, problems, histories)[:, every, :, every]
        """[histories, problems, problems] the products under each history alone."""

    def projected_means(self, copies: Ints) -> Floats:
        """[resamples, problems, histories, problems] the products e(x, H) . e_w(y); `copies` are [resamples, histories]."""
        problems, histories, _ = self._shape
        shares = copies / copies.sum(axis=1, keepdims=True)
        means = shares @ self._products.reshape(-1, histories).T
        return np.asarray(means.reshape(len(copies), problems, histories, problems))

    def neighbors(self, histories: Sequence[int], means: Floats, copies: Ints, count: int) -> Ints:
        """[histories, problems, count] the neighborhoods of the folds' anchors in one resample; those of others are 0.

        Args:
            histories: indices of histories.
            means: [problems, histories, problems] of the resample, from `projected_means`.
            copies: [histories] of the resample.
            count: the size of the neighborhoods.
        """
        crossed = means[:, histories].transpose(1, 0, 2)
        both = np.tensordot(means, copies / copies.sum(), (1, 0))
        inner = self._own[histories] - crossed - crossed.transpose(0, 2, 1) + both
        squares = np.diagonal(inner, axis1=1, axis2=2)
        found = np.zeros((len(histories), self._shape[0], count), np.int64)
        for fold in self._folds:
            products = inner[:, fold.anchors[:, None], fold.candidates]
            distances = squares[:, fold.anchors, None] + squares[:, None, fold.candidates] - 2 * products
            found[:, fold.anchors] = first_by_distance(distances, fold, count)
        return found
