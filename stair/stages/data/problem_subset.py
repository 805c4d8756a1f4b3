"""A part of a data set's problems, chosen by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stair.config.datasets import Subset
from stair.records.seeds import hash_order


def in_subset(problems: Iterable[str], subset: Subset, path: Path, key: str) -> list[str]:
    """The problems (by identity) that a subset keeps: the first by hash under its seed.

    Raises:
        ValueError: there are fewer; the message names the file and the key.
    """
    ordered = hash_order(problems, subset.seed)
    if len(ordered) < subset.problems:
        raise ValueError(
            f"{path}: {len(ordered)} problems remain, fewer than {key}.subset.problems ({subset.problems})"
        )
    return ordered[: subset.problems]
