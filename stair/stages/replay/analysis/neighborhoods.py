"""Neighborhoods: the nearest current problems under one history, and how far two histories agree on them (appendix A.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stair.records.seeds import hash_order
from stair.stages.replay.analysis.random_by_name import Ints, named_permutation

Floats = npt.NDArray[np.float64]
Pairs = Sequence[tuple[int, int]]
Table = dict[int, Ints]
"""By history: [problems, count] each problem's nearest candidates, the nearest first."""


@dataclass(frozen=True)
class Fold:
    """Current problems by index, both parts sorted by name."""

    anchors: Ints
    candidates: Ints
    """The problems of all other folds."""


def problem_folds(problems: Sequence[str], *seed: str | int, count: int) -> tuple[Fold, ...]:
    """Equal parts of the problems' hash order, quarters in the paper; every problem is an anchor once.

    `problems` are distinct names in the order of the arrays, as many as a multiple of `count`; `seed` names the order.
    """
    size = len(problems) // count
    place = {name: index for index, name in enumerate(problems)}
    order = hash_order(problems, *seed)
    folds = []
    for start in range(0, len(order), size):
        anchors = set(order[start : start + size])
        inside, outside = sorted(anchors), sorted(set(order) - anchors)
        folds.append(Fold(*(np.array([place[name] for name in names], np.int64) for names in (inside, outside))))
    return tuple(folds)


def anchor_shuffles(
    problems: Sequence[str],
    folds: Sequence[Fold],
    between: tuple[str, str],
    seeds: Sequence[str],
    *,
    exclude_fixed: bool = False,
) -> Ints:
    """The Question-identity shuffle: each anchor's second neighborhood is that of another anchor of its fold.

    A permutation depends on its seed, the names `between` of the two histories, and the fold's problems, not on layer, view or
    size. `problems` are names in the order of the arrays. With `exclude_fixed`, every anchor gets another one.

    Returns:
        [seeds, problems] the index of the problem whose neighborhood under the second history replaces each problem's own.
    """
    indices = np.empty((len(seeds), len(problems)), np.int64)
    for fold in folds:
        names = [problems[index] for index in fold.anchors]
        for row, seed in zip(indices, seeds, strict=True):
            row[fold.anchors] = fold.anchors[named_permutation(names, seed, *between, exclude_fixed=exclude_fixed)]
    return indices


def history_pairs(
    lengths: Sequence[int], blocks: Sequence[int], names: Sequence[str], *, pairs: int
) -> tuple[tuple[int, int], ...]:
    """Histories at evenly spaced positions of the order by length, each with the closest in length from another block.

    Histories of equal length are ordered by name. Positions are rounded, halves to even. Of two equally close histories
    the shorter one is taken, then the first by name. A pair that occurs twice counts twice.

    Args:
        lengths: [histories] tokens of the whole prefix.
        blocks: [histories] labels of the source blocks, of which there is more than one.
        names: [histories] names. A resample repeats a history with its name and block.
        pairs: number of pairs, at least two.

    Returns:
        Indices (first, second) of each pair.
    """
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], names[i]))
    chosen = [order[round(position * (len(order) - 1) / (pairs - 1))] for position in range(pairs)]
    return tuple(
        (
            first,
            min(
                (index for index in order if blocks[index] != blocks[first]),
                key=lambda i: (abs(lengths[i] - lengths[first]), lengths[i], names[i]),
            ),
        )
        for first in chosen
    )


def whitened(projected: Floats, fold: Fold, *, rho: float) -> Floats:
    """Coordinates by (Sigma + r I)^(-1/2), r = rho tr(Sigma) / d, from a fold's candidates under all histories.

    Sigma's normaliser, here the number of cells, scales all distances alike: it changes no neighborhood.

    Args:
        projected: FP64 [problems, histories, d] projected coordinates of the group.
        fold: the fold.
        rho: the ridge, relative to the mean of Sigma's diagonal.

    Returns:
        FP64 [problems, histories, d], of anchors and candidates alike.

    Raises:
        ValueError: the candidates do not vary.
    """
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


class Overlaps(NamedTuple):
    """Shares of common neighbors, in [0, 1] (Eq. 16): means over anchors within a pair, then over pairs.

    Folds have one size, so a mean over problems is one over anchors and folds.
    """

    matched: Floats
    """[sizes]"""
    shuffled: Floats
    """[seeds, sizes], with the second history's anchors shuffled"""


def nearest(points: Floats, fold: Fold, count: int) -> Ints:
    """The nearest candidates of a fold's anchors by Euclidean distance; of equally near ones the first by name.

    Distances come from products of centered points. Where two successive ones differ by less than the products' error,
    that anchor's distances are computed again from differences.

    Args:
        points: FP64 [problems, width] coordinates under one history.
        fold: the fold.
        count: the size of the neighborhood, at most the fold's candidates.

    Returns:
        int64 [anchors, count] indices of problems, the nearest first.
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
    return fold.candidates[np.argsort(distances, axis=1, kind="stable")[:, :count]]


def neighbor_table(coordinates: Sequence[Floats], folds: Sequence[Fold], histories: Iterable[int], count: int) -> Table:
    """The neighborhoods of `count` problems of all problems under each of some histories.

    `coordinates` are FP64 [problems, histories, width] of each fold.
    """
    table = {}
    for history in sorted(set(histories)):
        table[history] = np.empty((len(coordinates[0]), count), np.int64)
        for fold, points in zip(folds, coordinates, strict=True):
            table[history][fold.anchors] = nearest(points[:, history], fold, count)
    return table


def overlaps(table: Table, pairs: Pairs, orders: Sequence[Ints], sizes: Sequence[int]) -> Overlaps:
    """The cross-history overlap of all pairs, matched and shuffled, for neighborhoods of each of `sizes`.

    `table` has the neighborhoods under every history of the pairs, of at least the largest size. `orders` are each pair's
    shuffles [seeds, problems], which replace the second history's anchors. Repeated pairs count.
    """
    most = max(sizes)
    near, others = (np.stack([table[pair[side]][:, :most] for pair in pairs]) for side in (0, 1))
    count, problems, _ = near.shape
    # [pairs, problems, problems] the place of each problem in each neighborhood under the second history.
    places = np.full((count, problems, problems), most)
    np.put_along_axis(places, others, np.broadcast_to(np.arange(most), others.shape), axis=2)
    # [pairs, 1 + seeds, problems] whose neighborhood under the second history each problem's own is compared with.
    anchors = np.stack([[np.arange(problems), *of_pair] for of_pair in orders])
    found = places[np.arange(count)[:, None, None, None], anchors[..., None], near[:, None]]
    shares = np.stack([(found[..., :size] < size).sum(axis=-1) / size for size in sizes])
    matched, shuffled = shares[:, :, 0], shares[:, :, 1:].transpose(2, 0, 1, 3)
    return Overlaps(matched.mean(axis=-1).mean(axis=-1), shuffled.mean(axis=-1).mean(axis=-1))
