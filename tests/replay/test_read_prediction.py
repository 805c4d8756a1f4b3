"""Ridge regression on reads: resampled blocks, constant features, shuffles and a planted dependence."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from stair.stages.replay.analysis.block_intervals import BlockResamples
from stair.stages.replay.analysis.random_by_name import gaussian_projection, project
from stair.stages.replay.analysis.read_prediction import (
    base_features,
    by_block,
    moments,
    read_scores,
    repeated,
    shuffled_reads,
)
from tests.replay import naive_analysis as naive


@pytest.mark.parametrize("constant", [False, True])
def test_scores_of_repeated_histories_equal_the_loops_over_copied_cells(constant: bool) -> None:
    """All features of all blocks are compared with loops in test_statistics_of_a_replay."""
    generator = np.random.default_rng(1)
    features = [generator.normal(5, 1, (problems, histories, 7)) for problems, histories in ((6, 6), (5, 8))]
    targets = [x[..., 2:5] * 0.3 + generator.normal(3, 1, (*x.shape[:2], 3)) for x in features]
    if constant:
        # In the fit group alone. All sums of these numbers are exact.
        features[0][..., 1], features[1][..., 1] = 700, 697 + 2 * (np.arange(8) % 2)
    copies = [[0, 1, 0, 1, 4, 5], [2, 3, 4, 5, 4, 5, 4, 5]]
    blocks = [BlockResamples(of, 1, ("seed",)) for of in ((3, 3, 5, 5, 8, 8), (1, 1, 2, 2, 3, 3, 9, 9))]
    fit, test = (
        repeated(by_block(x, y, of), np.array(times))
        for x, y, of, times in zip(features, targets, blocks, ([2, 0, 1], [0, 1, 3, 0]), strict=True)
    )
    sides = [
        (x[:, listed].reshape(-1, 7).tolist(), y[:, listed].reshape(-1, 3).tolist())
        for x, y, listed in zip(features, targets, copies, strict=True)
    ]
    wanted = [naive.read_scores(sides[0], sides[1], kept) for kept in (4, 7)]
    assert read_scores(fit, test, 4) == pytest.approx(wanted, abs=1e-9)


def test_a_feature_that_is_constant_in_the_fit_group_is_ignored_whatever_rounding_leaves_of_it() -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        xs, ys = generator.normal(0, 1, (2, 12, 3)), generator.normal(0, 1, (2, 12, 2))
        xs[0, :, 1] = generator.normal()
        found = read_scores(*(moments(x.reshape(4, 3, 3), y.reshape(4, 3, 2)) for x, y in zip(xs, ys, strict=True)), 2)
        without = [moments(x[:, ::2].reshape(4, 3, 2), y.reshape(4, 3, 2)) for x, y in zip(xs, ys, strict=True)]
        assert found == pytest.approx(read_scores(without[0], without[1], 1), abs=1e-9), seed


def test_the_paper_s_widths() -> None:
    generator, projection = np.random.default_rng(1), gaussian_projection(64, 96, "projection")
    inputs, references = generator.normal(0, 1, (2, 2, 96)), generator.normal(0, 1, (2, 96))
    base = base_features(projection, inputs, references, [50, 60], np.full((2, 2, 4), 0.25, np.float32))
    assert base.shape == (2, 2, 132) and project(projection, inputs).shape == (2, 2, 64)
    assert base.dtype == np.float64


def shuffled(reads: np.ndarray, across: Literal["histories", "problems"]) -> np.ndarray:
    problems, histories, _ = reads.shape
    names = [f"p{index:03}" for index in range(problems)], [f"h{index:03}" for index in range(histories)]
    return shuffled_reads(reads, across, *names, "shuffle")


def test_reads_are_shuffled_along_one_axis_by_names() -> None:
    reads = np.random.default_rng(1).normal(0, 1, (6, 5, 2)).astype(np.float32)
    across_histories, across_problems = shuffled(reads, "histories"), shuffled(reads, "problems")
    moves = set()
    for x in range(6):
        rows = [tuple(read) for read in reads[x]]
        assert sorted(map(tuple, across_histories[x])) == sorted(rows)
        moves.add(tuple(rows.index(tuple(read)) for read in across_histories[x]))
    assert len(moves) > 3
    for h in range(5):
        assert sorted(map(tuple, across_problems[:, h])) == sorted(map(tuple, reads[:, h]))
    names = [f"p{index:03}" for index in range(6)], [f"h{index:03}" for index in range(5)]
    turned = shuffled_reads(reads[::-1, ::-1], "histories", names[0][::-1], names[1][::-1], "shuffle")
    np.testing.assert_array_equal(turned[::-1, ::-1], across_histories)


def test_a_linear_dependence_on_the_read_is_found_and_gone_under_both_shuffles() -> None:
    hidden, shape = 32, (48, 16)
    generator, projection = np.random.default_rng(3), gaussian_projection(64, 32, "projection")
    slope = generator.normal(0, 0.1, (hidden, hidden))
    reads = [generator.normal(0, 1, (*shape, hidden)) for _ in range(2)]
    base = [generator.normal(0, 1, (*shape, 132)) for _ in range(2)]
    targets = [generator.normal(3, 1, (*shape, hidden)) + read @ slope for read in reads]

    def increments(of: list[np.ndarray]) -> list[float]:
        features = [np.concatenate([x, project(projection, read)], axis=-1) for x, read in zip(base, of, strict=True)]
        sums = [moments(x, y) for x, y in zip(features, targets, strict=True)]
        scores = [read_scores(sums[fit], sums[1 - fit], 132) for fit in (0, 1)]
        return [full - alone for alone, full in scores]

    # The read is a quarter of the targets' variance; the penalty takes its part.
    assert min(increments(reads)) > 0.1
    for across in ("histories", "problems"):
        assert max(map(abs, increments([shuffled(read, across) for read in reads]))) < 0.02
