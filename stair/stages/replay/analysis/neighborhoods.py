"""Neighborhoods: the nearest current problems under one history, and how far two histories agree on them (appendix A.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stair.stages.replay.analysis.folds import AnchorShuffles, Fold
from stair.stages.replay.analysis.permutations import Ints

Floats = npt.NDArray[np.float64]
Pairs = Sequence[tuple[int, int]]
Table = dict[int, Ints]
"""By history: [problems, count] each problem's nearest candidates, the nearest first."""


@dataclass(frozen=True)
class Overlaps:
    """Shares of common neighbors, in [0, 1] (Eq. 16).

    The folds are of one size, so a mean over problems is the mean over anchors and folds.
    """

    matched: Floats
    """[sizes, pairs, problems]"""
    shuffled: Floats
    """[seeds, sizes, pairs, problems], with the second history's anchors shuffled"""

    @property
    def matched_means(self) -> Floats:
        """[sizes] the mean over anchors within a pair, then over pairs."""
        return np.asarray(self.matched.mean(axis=-1).mean(axis=-1))

    @property
    def shuffled_means(self) -> Floats:
        """[seeds, sizes] the same of each shuffle."""
        return np.asarray(self.shuffled.mean(axis=-1).mean(axis=-1))


def nearest(points: Floats, fold: Fold, count: int) -> Ints:
    """The nearest candidates of a fold's anchors by Euclidean distance; of equally near ones the first by name.

    Distances come from products of centered points. Where two successive ones differ by less than the products' error,
    that anchor's distances are computed again from differences.

    Args:
        points: FP64 [problems, width] the coordinates of all problems under one history.
        fold: the fold.
        count: the largest neighborhood.

    Returns:
        int64 [anchors, count] indices of problems, the nearest first.

    Raises:
        ValueError: the fold has fewer candidates.
    """
    candidates = points[fold.candidates]
    middle = candidates.mean(axis=0)
    candidates, anchors = candidates - middle, points[fold.anchors] - middle
    squares, own = (np.einsum("ij,ij->i", part, part) for part in (candidates, anchors))
    distances = own[:, None] + squares - 2 * (anchors @ candidates.T)
    error = 4 * np.finfo(np.float64).eps * points.shape[1] * (own + squares.max())
    successive = np.diff(np.sort(distances, axis=1)[:, : count + 1], axis=1)
    for row in np.flatnonzero((successive <= error[:, None]).any(axis=1)):
        distances[row] = np.square(points[fold.candidates] - points[fold.anchors[row]]).sum(axis=1)
    return first_by_distance(distances, fold, count)


def first_by_distance(distances: Floats, fold: Fold, count: int) -> Ints:
    """The `count` nearest of a fold's candidates: [..., anchors, candidates] to indices of problems [..., anchors, count]."""
    if count > len(fold.candidates):
        raise ValueError(f"a fold has {len(fold.candidates)} candidates, fewer than the {count} of a neighborhood")
    return fold.candidates[np.argsort(distances, axis=-1, kind="stable")[..., :count]]


def neighbor_table(
    coordinates: Floats | Sequence[Floats], folds: Sequence[Fold], histories: Iterable[int], count: int
) -> Table:
    """The neighborhoods of all problems under each of some histories.

    Args:
        coordinates: FP64 [problems, histories, width]; a sequence has the coordinates of each fold (whitening).
        folds: the folds of the problems.
        histories: indices of histories.
        count: the largest neighborhood.

    Raises:
        ValueError: a fold has fewer candidates.
    """
    of_folds = [coordinates] * len(folds) if isinstance(coordinates, np.ndarray) else coordinates
    table = {}
    for history in sorted(set(histories)):
        table[history] = np.empty((len(of_folds[0]), count), np.int64)
        for fold, points in zip(folds, of_folds, strict=True):
            table[history][fold.anchors] = nearest(points[:, history], fold, count)
    return table


def overlaps(table: Table, pairs: Pairs, shuffles: AnchorShuffles, sizes: Sequence[int]) -> Overlaps:
    """The cross-history overlap of all pairs, matched and shuffled.

    Args:
        table: the neighborhoods under every history of the pairs, of at least the largest size.
        pairs: the pairs of histories; repeats count.
        shuffles: the shuffles of anchors, which replace the second history's only.
        sizes: the neighborhoods' sizes k.
    """
    most = max(sizes)
    near, others = (np.stack([table[pair[side]][:, :most] for pair in pairs]) for side in (0, 1))
    count, problems, _ = near.shape
    # [pairs, problems, problems] the place of each problem in each neighborhood under the second history.
    places = np.full((count, problems, problems), most)
    np.put_along_axis(places, others, np.broadcast_to(np.arange(most), others.shape), axis=2)
    # [pairs, 1 + seeds, problems] whose neighborhood under the second history each problem's own is compared with.
    anchors = np.stack([[np.arange(problems), *shuffles.of_pair(*pair)] for pair in pairs])
    found = places[np.arange(count)[:, None, None, None], anchors[..., None], near[:, None]]
    shares = np.stack([(found[..., :size] < size).sum(axis=-1) / size for size in sizes])
    return Overlaps(shares[:, :, 0], shares[:, :, 1:].transpose(2, 0, 1, 3))
