"""Folds, pairs, shuffles and neighborhoods, beside loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stair.stages.replay.analysis.neighborhoods import (
    Fold,
    anchor_shuffles,
    history_pairs,
    neighbor_table,
    overlaps,
    problem_folds,
)
from stair.stages.replay.analysis.random_by_name import gaussian_projection, named_permutation, project
from tests.replay import naive_analysis as naive


def named(letter: str, count: int) -> list[str]:
    return [f"{letter}{7 * number % count:03}" for number in range(count)]


def folded(problems: Sequence[str]) -> tuple[Fold, ...]:
    return problem_folds(problems, "seed", "folds", count=4)


def shuffles_of(problems: int, histories: int, *, exclude_fixed: bool = False) -> Callable[[int, int], np.ndarray]:
    names, others, seeds = named("p", problems), named("h", histories), ["first", "second"]

    def of_pair(first: int, second: int) -> np.ndarray:
        between = others[first], others[second]
        return anchor_shuffles(names, folded(names), between, seeds, exclude_fixed=exclude_fixed)

    return of_pair


def test_folds_are_exact_quarters_of_a_function_of_names() -> None:
    names = named("p", 128)
    folds = folded(names)
    assert [(len(fold.anchors), len(fold.candidates)) for fold in folds] == [(32, 96)] * 4
    assert sorted(index for fold in folds for index in fold.anchors) == list(range(128))
    for fold in folds:
        assert not set(fold.anchors) & set(fold.candidates)
        for part in (fold.anchors, fold.candidates):
            assert [names[index] for index in part] == sorted(names[index] for index in part)
    turned = folded(names[::-1])
    assert [{names[::-1][i] for i in fold.anchors} for fold in turned] == [{names[i] for i in f.anchors} for f in folds]
    assert [set(f.anchors) for f in problem_folds(names, "other", count=4)] != [set(f.anchors) for f in folds]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=14),
    st.integers(2, 8),
)
def test_pairs_are_those_of_the_loops(histories: list[tuple[int, int, int]], count: int) -> None:
    lengths, blocks, copies = (list(values) for values in zip(*histories, strict=True))
    names = named("h", len(histories))
    for times in (copies, [1] * len(names)):
        members = [index for index, number in enumerate(times) for _ in range(number)]
        many = [[values[i] for i in members] for values in (lengths, blocks, names)]
        if len(set(many[1])) < 2:
            continue
        found = history_pairs(*many, pairs=count)
        assert list(found) == naive.pairs(*many, count)
        assert all(many[1][first] != many[1][second] for first, second in found)


def test_ties_of_length_go_to_the_shorter_then_by_name() -> None:
    assert history_pairs([10, 8, 12], [1, 2, 3], ["a", "b", "c"], pairs=3) == ((1, 0), (0, 1), (2, 0))
    assert history_pairs([8, 10, 8], [1, 2, 3], ["z", "m", "a"], pairs=3)[2] == (1, 2)


def test_permutations_depend_on_names_alone() -> None:
    names = named("p", 30)
    moved = named_permutation(names, "seed")
    turned = named_permutation(names[::-1], "seed")
    assert {a: names[b] for a, b in zip(names, moved, strict=True)} == {
        a: names[::-1][b] for a, b in zip(names[::-1], turned, strict=True)
    }
    assert sorted(moved) == list(range(30))
    drawn = [tuple(named_permutation(["a", "b", "c"], seed)) for seed in range(600)]
    assert all(70 < drawn.count(one) < 130 for one in set(drawn)) and len(set(drawn)) == 6
    deranged = [tuple(named_permutation(["a", "b", "c"], seed, exclude_fixed=True)) for seed in range(200)]
    assert set(deranged) == {(1, 2, 0), (2, 0, 1)} and 70 < deranged.count((1, 2, 0)) < 130


def test_anchors_are_shuffled_within_their_fold() -> None:
    for exclude in (False, True):
        shuffles = shuffles_of(32, 6, exclude_fixed=exclude)
        drawn = [shuffles(first, second) for first, second in ((0, 1), (1, 0), (2, 3))]
        assert all((one != other).any() for one, other in ((drawn[0], drawn[1]), (drawn[0], drawn[2]), drawn[0]))
        for pi in np.concatenate(drawn):
            for fold in folded(named("p", 32)):
                assert set(pi[fold.anchors]) == set(fold.anchors)
        fixed = sum(int((pi == np.arange(32)).sum()) for pi in np.concatenate(drawn))
        assert fixed == 0 if exclude else fixed > 0


@pytest.mark.parametrize("ties", [False, True])
def test_overlaps_equal_the_loops(ties: bool) -> None:
    generator = np.random.default_rng(5)
    problems, histories, sizes = 20, 6, (2, 5, 9)
    view = generator.normal(0, 1, (problems, histories, 3)) + 40
    if ties:
        view = generator.integers(0, 3, view.shape).astype(float)
    names, blocks, lengths = named("p", problems), [0, 0, 1, 1, 2, 2], [5, 3, 3, 4, 9, 5]
    pairs = history_pairs(lengths, blocks, named("h", histories), pairs=4)
    folds = folded(names)
    shuffles = shuffles_of(problems, histories)
    found = overlaps(
        neighbor_table([view] * 4, folds, {h for pair in pairs for h in pair}, 9),
        pairs,
        [shuffles(*pair) for pair in pairs],
        sizes,
    )
    anchors = [fold.anchors.tolist() for fold in folds]
    for number, size in enumerate(sizes):
        wanted = naive.overlap(view.tolist(), names, anchors, pairs, size)
        assert found.matched[number] == pytest.approx(wanted, abs=1e-14)
        for seed in range(2):
            pi = [shuffles(*pair)[seed].tolist() for pair in pairs]
            wanted = naive.overlap(view.tolist(), names, anchors, pairs, size, pi)
            assert found.shuffled[seed, number] == pytest.approx(wanted, abs=1e-14)


def test_a_projection_is_a_function_of_its_names_and_keeps_norms() -> None:
    projection = gaussian_projection(128, 2560, "projection")
    np.testing.assert_array_equal(projection, gaussian_projection(128, 2560, "projection"))
    assert (projection != gaussian_projection(128, 2560, "other")).all()
    vectors = np.random.default_rng(7).normal(0, 1, (50, 2560)).astype(np.float32)
    ratios = np.linalg.norm(project(projection, vectors), axis=1) / np.linalg.norm(vectors, axis=1)
    assert 0.9 < ratios.mean() < 1.1
