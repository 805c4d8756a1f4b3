"""Pairs of histories from different source blocks, of about equal length (appendix A.3)."""

from __future__ import annotations

from collections.abc import Sequence


def history_pairs(
    lengths: Sequence[int],
    blocks: Sequence[int],
    names: Sequence[str],
    *,
    pairs: int,
    copies: Sequence[int] | None = None,
) -> tuple[tuple[int, int], ...]:
    """Histories at evenly spaced positions of the order by length, each with the closest in length from another block.

    Histories of equal length are ordered by name. Positions are rounded, halves to even. Of two equally close histories
    the shorter one is taken, then the first by name. A pair that occurs twice counts twice.

    Args:
        lengths: [histories] tokens of the whole prefix at the depth in question.
        blocks: [histories] labels of the source blocks.
        names: [histories] distinct names.
        pairs: number of pairs, at least two.
        copies: [histories] how often a resample contains each history; None for once. Copies keep their block.

    Returns:
        As many pairs (first, second) of indices.

    Raises:
        ValueError: all histories are of one block.
    """
    copies = [1] * len(lengths) if copies is None else copies
    order = sorted((index for index, times in enumerate(copies) if times), key=lambda i: (lengths[i], names[i]))
    if len({blocks[index] for index in order}) < 2:
        raise ValueError("a history needs a partner from another source block, and all histories are of one block")
    members = [index for index in order for _ in range(copies[index])]
    chosen = [members[round(position * (len(members) - 1) / (pairs - 1))] for position in range(pairs)]
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
