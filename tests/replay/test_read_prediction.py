"""Ridge regression on reads, beside augmented least squares over cells and a planted dependence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from stair.stages.replay.analysis.decomposition import displacement
from stair.stages.replay.analysis.random_by_name import gaussian_projection, project
from stair.stages.replay.analysis.read_prediction import (
    Increment,
    Moments,
    Offset,
    base_features,
    moments,
    read_increment,
    shuffled_reads,
)
from tests.replay import naive_analysis as naive


@dataclass
class Group:
    """Random measurements of one group, whose names no other group has."""

    problems: list[str]
    histories: list[str]
    blocks: list[int]
    lengths: list[int]
    inputs: np.ndarray
    references: np.ndarray
    masses: np.ndarray
    reads: np.ndarray
    mlp: np.ndarray
    mlp_references: np.ndarray

    @classmethod
    def drawn(cls, number: int, problems: int, histories: int, hidden: int, slope: np.ndarray | None = None) -> Group:
        """`slope` [hidden, hidden] is what a read adds to the MLP output."""
        generator = np.random.default_rng(number)
        cells = problems, histories
        group = cls(
            [f"{number}p{index:03}" for index in range(problems)],
            [f"{number}h{index:03}" for index in range(histories)],
            [index // 2 for index in range(histories)],
            generator.integers(50, 5000, histories).tolist(),
            (generator.normal(0, 1, (*cells, hidden)) + 50).astype(np.float32),
            (generator.normal(0, 1, (problems, hidden)) + 50).astype(np.float32),
            generator.dirichlet([1, 1, 1, 1], cells).astype(np.float32),
            generator.normal(0, 1, (*cells, hidden)).astype(np.float32),
            generator.normal(3, 1, (*cells, hidden)).astype(np.float32),
            generator.normal(0, 0.5, (problems, hidden)).astype(np.float32),
        )
        if slope is not None:
            group.mlp += (group.reads @ slope).astype(np.float32)
        return group

    def features(self, projection: np.ndarray, reads: np.ndarray | None = None) -> np.ndarray:
        base = base_features(projection, self.inputs, self.references, self.lengths, self.masses)
        return np.concatenate([base, project(projection, self.reads if reads is None else reads)], axis=-1)

    def shuffled(self, across: str) -> np.ndarray:
        return shuffled_reads(self.reads, across, self.problems, self.histories, "shuffle")  # type: ignore[arg-type]

    @property
    def targets(self) -> np.ndarray:
        return displacement(self.mlp, self.mlp_references)


def both(groups: list[Group], features: list[np.ndarray]) -> list[Moments]:
    offset = Offset.between(features, [group.targets for group in groups])
    return [moments(x, group.targets, group.blocks, offset) for x, group in zip(features, groups, strict=True)]


def naive_increment(
    fit: Group, test: Group, projection: np.ndarray, fit_cells: list[int], test_cells: list[int]
) -> Increment:
    """Histories as often as they are listed."""
    sides = []
    for group, listed in ((fit, fit_cells), (test, test_cells)):
        xs, ys = [], []
        for x in range(len(group.problems)):
            for h in listed:
                xs.append(
                    naive.features(
                        projection, group.inputs[x, h], group.references[x], group.lengths[h], group.masses[x, h],
                        group.reads[x, h],
                    )
                )  # fmt: skip
                ys.append((group.mlp[x, h].astype(float) - group.mlp_references[x].astype(float)).tolist())
        sides.append((xs, ys))
    base = 2 * len(projection) + 4
    return Increment(*(naive.read_scores(*sides, kept) for kept in (base, base + len(projection))))


@pytest.mark.parametrize("constant", [False, True])
def test_increments_equal_the_loops_in_both_directions_and_for_resampled_blocks(constant: bool) -> None:
    groups = [Group.drawn(1, 6, 6, 5), Group.drawn(2, 5, 8, 5)]
    if constant:
        groups[0].lengths = [700] * 6
    projection = gaussian_projection(3, 5, "projection")
    stored = both(groups, [group.features(projection) for group in groups])
    for fit, test in ((0, 1), (1, 0)):
        found = read_increment(stored[fit], stored[test], 10)
        everything = [list(range(len(group.histories))) for group in groups]
        wanted = naive_increment(groups[fit], groups[test], projection, everything[fit], everything[test])
        assert found.base == pytest.approx(wanted.base, abs=1e-10)
        assert found.full == pytest.approx(wanted.full, abs=1e-10)
        assert found.increment == pytest.approx(wanted.increment, abs=1e-10)
    # Blocks 0, 1 and 2 of two histories each, and 0 to 3.
    weights = [np.array([2.0, 0.0, 1.0]), np.array([0.0, 1.0, 3.0, 0.0])]
    copies = [[0, 1, 0, 1, 4, 5], [2, 3, 4, 5, 4, 5, 4, 5]]
    one, other = (each.weighted(weight) for each, weight in zip(stored, weights, strict=True))
    wanted = naive_increment(groups[0], groups[1], projection, *copies)
    assert read_increment(one, other, 10).increment == pytest.approx(wanted.increment, abs=1e-10)


def test_the_paper_s_widths() -> None:
    group = Group.drawn(1, 2, 2, 96)
    projection = gaussian_projection(64, 96, "projection")
    base = base_features(projection, group.inputs, group.references, group.lengths, group.masses)
    assert base.shape == (2, 2, 132) and group.features(projection).shape == (2, 2, 196)
    assert base.dtype == np.float64


def test_reads_are_shuffled_along_one_axis_by_names() -> None:
    group = Group.drawn(1, 6, 5, 2)
    across_histories, across_problems = group.shuffled("histories"), group.shuffled("problems")
    moves = set()
    for x in range(6):
        rows = [tuple(read) for read in group.reads[x]]
        assert sorted(map(tuple, across_histories[x])) == sorted(rows)
        moves.add(tuple(rows.index(tuple(read)) for read in across_histories[x]))
    assert len(moves) > 3
    for h in range(5):
        assert sorted(map(tuple, across_problems[:, h])) == sorted(map(tuple, group.reads[:, h]))
    turned = shuffled_reads(
        group.reads[::-1, ::-1], "histories", group.problems[::-1], group.histories[::-1], "shuffle"
    )
    np.testing.assert_array_equal(turned[::-1, ::-1], across_histories)


def test_a_linear_dependence_on_the_read_is_found_and_gone_under_both_shuffles() -> None:
    hidden = 32
    slope = np.random.default_rng(3).normal(0, 0.1, (hidden, hidden))
    groups = [Group.drawn(1, 48, 16, hidden, slope), Group.drawn(2, 48, 16, hidden, slope)]
    projection = gaussian_projection(64, hidden, "projection")
    base = 2 * 64 + 4
    found = {}
    for name in ("reads", "histories", "problems"):
        reads = [group.reads if name == "reads" else group.shuffled(name) for group in groups]
        stored = both(groups, [group.features(projection, read) for group, read in zip(groups, reads, strict=True)])
        found[name] = [read_increment(stored[i], stored[1 - i], base).increment for i in (0, 1)]
    # The read is a quarter of the targets' variance; references and the penalty take their part.
    assert min(found["reads"]) > 0.1
    assert max(map(abs, found["histories"] + found["problems"])) < 0.02
