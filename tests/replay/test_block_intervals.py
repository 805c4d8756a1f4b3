"""Resamples of source blocks, and intervals."""

from __future__ import annotations

import numpy as np
import pytest

from stair.stages.replay.analysis.block_intervals import BlockResamples, block_interval


def test_resamples_draw_whole_blocks() -> None:
    blocks = (7, 2, 2, 9, 7, 4, 5)
    resamples = BlockResamples(blocks, 400, ("seed", "group 1"))
    assert resamples.count == 5
    drawn = [chosen.tolist() for chosen in resamples]
    times = np.array([[chosen.count(history) for history in range(7)] for chosen in drawn])
    assert (times[:, [0, 1, 3, 5, 6]].sum(axis=1) == 5).all()
    assert (times[:, 0] == times[:, 4]).all() and (times[:, 1] == times[:, 2]).all()
    assert times.mean(axis=0) == pytest.approx(np.ones(7), abs=0.2)
    again, other = (BlockResamples(blocks, 400, ("seed", f"group {number}")) for number in (1, 2))
    assert [chosen.tolist() for chosen in again] == drawn
    assert [chosen.tolist() for chosen in other] != drawn


def test_an_interval_is_laid_about_the_number() -> None:
    resampled = np.linspace(10, 20, 1001)
    ends = block_interval(30.0, resampled, 10**6)
    assert (ends.low, ends.high) == (pytest.approx(25.25, abs=1e-3), pytest.approx(34.75, abs=1e-3))
    few = block_interval(30.0, resampled, 5)
    assert few.low is not None and ends.low is not None and few.low < ends.low - 2
    assert block_interval(1.0, resampled, 5, (0, 100)).low == 0


def test_resamples_without_the_number_do_not_count() -> None:
    numbers = np.array([1.0, np.nan, 2.0, 3.0])
    assert (block_interval(2.0, numbers, 5).method or "").startswith("95%; 3 resamples of 5 whole source blocks")


def test_too_few_blocks_are_not_resampled() -> None:
    assert not list(BlockResamples((1, 1, 2, 3, 4), 400, ("seed",)))
    ends = block_interval(1.0, [], 4)
    assert ends == (None, None, "none: 4 source blocks, and an interval needs 5")
