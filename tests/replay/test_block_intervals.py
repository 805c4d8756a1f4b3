"""Resamples of source blocks, beside copies and coverage."""

from __future__ import annotations

import numpy as np
import pytest

from stair.stages.replay.analysis.block_intervals import BlockResamples, block_interval, weighted_medians
from stair.stages.replay.analysis.decomposition import decompose, energy
from stair.stages.replay.analysis.resampled_interaction import interaction_percentages
from tests.replay import naive_analysis as naive


def test_resamples_draw_whole_blocks() -> None:
    blocks = (7, 2, 2, 9, 7, 4, 5)
    resamples = BlockResamples(blocks, 400, ("seed", "group 1"))
    assert resamples.count == 5
    assert (resamples.draws.sum(axis=1) == 5).all()
    # Ascending labels: 2, 4, 5, 7, 9.
    place = [3, 0, 0, 4, 3, 1, 2]
    np.testing.assert_array_equal(resamples.copies, resamples.draws[:, place])
    assert resamples.draws.mean(axis=0) == pytest.approx(np.ones(5), abs=0.2)
    again = BlockResamples(blocks, 400, ("seed", "group 1")).draws
    other = BlockResamples(blocks, 400, ("seed", "group 2")).draws
    np.testing.assert_array_equal(again, resamples.draws)
    assert (other != again).any()


def test_medians_and_energies_are_those_of_copied_histories() -> None:
    generator = np.random.default_rng(1)
    cells = generator.normal(2, 1, (6, 5, 4))
    parts = decompose(cells)
    copies = np.array([[1, 1, 1, 1, 1], [0, 2, 1, 0, 3], [4, 0, 0, 0, 1]])
    fractions = interaction_percentages(parts.raw, parts.interaction, copies) / 100
    norms = np.linalg.norm(cells, axis=-1)
    medians = weighted_medians(norms, copies)
    for row, times in enumerate(copies):
        listed = [h for h, count in enumerate(times) for _ in range(count)]
        copied = [[cells[x, h].tolist() for h in listed] for x in range(6)]
        assert fractions[row] == pytest.approx(naive.interaction_fraction(copied), rel=1e-12)
        assert medians[row] == pytest.approx(naive.median_norm(copied), rel=1e-12)
    assert fractions[0] == pytest.approx(parts.energies()["interaction"] / energy(parts.raw), rel=1e-12)


def test_an_interval_is_laid_about_the_number() -> None:
    resampled = np.linspace(10, 20, 1001)
    ends = block_interval(30.0, lambda: resampled, 10**6)
    assert (ends.low, ends.high) == (pytest.approx(25.25, abs=1e-3), pytest.approx(34.75, abs=1e-3))
    few = block_interval(30.0, lambda: resampled, 5)
    assert few.low is not None and ends.low is not None and few.low < ends.low - 2
    assert block_interval(1.0, lambda: resampled, 5, (0, 100)).low == 0


def test_too_few_blocks_are_not_resampled() -> None:
    def fails() -> np.ndarray:
        raise AssertionError("resampled")

    ends = block_interval(1.0, fails, 4)
    assert ends == (None, None, "none: 4 source blocks, and an interval needs 5")


def test_intervals_cover_a_planted_energy_fraction() -> None:
    """Blocks differ in the size of their interaction; the truth is that of endless histories of this kind."""
    generator, problems, hidden = np.random.default_rng(2), 12, 8
    blocks = tuple(number // 2 for number in range(34))
    truth, covered, rounds = 1.5 / (1 + 1.5), 0, 150
    for _ in range(rounds):
        # A block's variance is 1 or 2; the additive part is the problems' alone.
        spread = np.sqrt(generator.integers(1, 3, 17)[list(blocks)])
        noise = spread[:, None] * generator.normal(0, 1, (problems, 34, hidden))
        own = generator.normal(0, 1, (problems, 1, hidden))
        own *= np.sqrt(problems * hidden / np.square(own).sum())
        parts = decompose(own + noise)
        # What the means of 12 problems and 34 histories take from the interaction is given back.
        fraction = parts.energies()["interaction"] / energy(parts.raw)
        estimate = fraction / (1 - 1 / problems) / (1 - 1 / 34)
        scale = estimate / fraction
        resamples = BlockResamples(blocks, 300, ("coverage",))
        resampled = scale * interaction_percentages(parts.raw, parts.interaction, resamples.copies) / 100
        ends = block_interval(estimate, lambda numbers=resampled: numbers, resamples.count)
        assert ends.low is not None and ends.high is not None
        covered += ends.low <= truth <= ends.high
    assert covered / rounds > 0.88
