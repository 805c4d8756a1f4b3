"""Folds of current problems, and the shuffle of anchors within them (appendix A.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from stair.records.seeds import hash_order
from stair.stages.replay.analysis.permutations import Ints, named_permutation


@dataclass(frozen=True)
class Fold:
    """Current problems by index, both parts sorted by name."""

    anchors: Ints
    candidates: Ints
    """The problems of all other folds."""


def problem_folds(problems: Sequence[str], *seed: str | int, count: int) -> tuple[Fold, ...]:
    """Equal parts of the problems' hash order, quarters in the paper; every problem is an anchor once.

    Args:
        problems: distinct names, in the order of the arrays.
        seed: names the order.
        count: number of folds.

    Raises:
        ValueError: the number of folds does not divide the number of problems.
    """
    size, rest = divmod(len(problems), count)
    if rest or not size:
        raise ValueError(f"{len(problems)} current problems have no {count} equal folds; take a multiple of {count}")
    place = {name: index for index, name in enumerate(problems)}
    order = hash_order(problems, *seed)
    folds = []
    for start in range(0, len(order), size):
        anchors = set(order[start : start + size])
        inside, outside = sorted(anchors), sorted(set(order) - anchors)
        folds.append(Fold(*(np.array([place[name] for name in names], np.int64) for names in (inside, outside))))
    return tuple(folds)


class AnchorShuffles:
    """The Question-identity shuffle: each anchor's second neighborhood is that of another anchor of its fold.

    A permutation depends on its seed, the two histories' names and the fold's problems, not on layer, view or size.

    Args:
        problems: names of current problems, in the order of the arrays.
        histories: names of histories, in the order of the arrays.
        folds: folds of the problems.
        seeds: one shuffle for each.
        exclude_fixed: whether every anchor must get another one.
    """

    def __init__(
        self,
        problems: Sequence[str],
        histories: Sequence[str],
        folds: Sequence[Fold],
        seeds: Sequence[str],
        *,
        exclude_fixed: bool = False,
    ) -> None:
        self._problems, self._histories, self._folds = problems, histories, folds
        self.seeds, self._exclude_fixed = tuple(seeds), exclude_fixed
        self.of_pair = cache(self._of_pair)

    def _of_pair(self, first: int, second: int) -> npt.NDArray[np.int64]:
        """[seeds, problems] the index of the problem whose neighborhood under `second` replaces each problem's own."""
        indices = np.empty((len(self.seeds), len(self._problems)), np.int64)
        for fold in self._folds:
            names = [self._problems[index] for index in fold.anchors]
            for row, seed in zip(indices, self.seeds, strict=True):
                between = self._histories[first], self._histories[second]
                row[fold.anchors] = fold.anchors[
                    named_permutation(names, seed, *between, exclude_fixed=self._exclude_fixed)
                ]
        return indices
