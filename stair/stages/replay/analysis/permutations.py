"""Permutations that are functions of names: the order in which the names come does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from stair.records.seeds import hash_order

Ints = npt.NDArray[np.int64]


def named_permutation(names: Sequence[str], *seed: str | int, exclude_fixed: bool = False) -> Ints:
    """A uniform permutation of distinct names.

    Args:
        names: distinct names.
        seed: names the permutation.
        exclude_fixed: draw until no name stays at its place.

    Returns:
        int64 [names]: the index of the name that replaces each name.

    Raises:
        ValueError: a single name cannot move.
    """
    if exclude_fixed and len(names) == 1:
        raise ValueError(f"the only name {names[0]} cannot move: a permutation without fixed points needs two")
    place = {name: index for index, name in enumerate(names)}
    ordered = sorted(names)
    for attempt in count():
        drawn = hash_order(ordered, *seed, attempt)
        if not exclude_fixed or all(name != other for name, other in zip(ordered, drawn, strict=True)):
            break
    target = dict(zip(ordered, drawn, strict=True))
    return np.array([place[target[name]] for name in names], np.int64)
