"""Permutations and projections that are functions of names alone (appendices A.3 and A.6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from stair.records.seeds import hash_order
from stair.statistics.named_random import named_generator

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def named_permutation(names: Sequence[str], *seed: str | int, exclude_fixed: bool = False) -> Ints:
    """A uniform permutation of distinct names: int64 [names], the index of the name that replaces each name.

    `seed` names the permutation. With `exclude_fixed` it is drawn until no name stays at its place.
    """
    assert len(names) > 1 or not exclude_fixed, "the only name cannot move"
    place = {name: index for index, name in enumerate(names)}
    ordered = sorted(names)
    for attempt in count():
        drawn = hash_order(ordered, *seed, attempt)
        if not exclude_fixed or all(name != other for name, other in zip(ordered, drawn, strict=True)):
            break
    target = dict(zip(ordered, drawn, strict=True))
    return np.array([place[target[name]] for name in names], np.int64)


def gaussian_projection(width: int, hidden: int, *seed: str | int) -> Floats:
    """P: FP64 [width, hidden], independent N(0, 1 / width); a function of the seed and both sizes."""
    return named_generator(*seed, width, hidden).standard_normal((width, hidden)) / np.sqrt(width)


def project(projection: Floats, values: npt.NDArray[np.floating]) -> Floats:
    """P v for [..., hidden] values, FP64 [..., width]."""
    return np.asarray(values.astype(np.float64, copy=False) @ projection.T)
