"""The joint effect of several parts, and the simulated rows by which its power is known."""

from __future__ import annotations

import numpy as np
import pytest

from stair.statistics.grid import Grid, TurnKey
from stair.statistics.intervals import bootstrap_interval, spread_factor
from stair.statistics.joint import Ratio, _draws, joint_error, joint_interval
from stair.statistics.simulated_runs import BETWEEN_MODELS, WITHIN_MODEL, Expected, simulated_responses


def mean_of(problems: str, values: np.ndarray, sign: int = 1) -> Ratio:
    return Ratio(problems, values, np.ones_like(values), sign)


def test_the_interval_is_that_of_the_formula_as_written() -> None:
    """Two gains on one set, and the difference of a pooled accuracy and of another set's mean."""
    generator = np.random.default_rng(0)
    aime, other = generator.normal(5.0, 30.0, (3, 30)), generator.normal(1.0, 10.0, 8)
    sizes = generator.integers(0, 3, 30).astype(float)
    effects = [[mean_of("aime", aime[0])], [mean_of("aime", aime[1])]]
    effects.append([Ratio("aime", aime[2] * sizes, sizes), mean_of("other", other, -1)])
    means = []
    for of_aime, of_other in zip(_draws("aime", 30), _draws("other", 8), strict=True):
        drawn, drawn_other = (
            np.repeat(np.arange(30), of_aime.astype(int)),
            np.repeat(np.arange(8), of_other.astype(int)),
        )
        pooled = (aime[2] * sizes)[drawn].sum() / sizes[drawn].sum()
        means.append(np.mean([aime[0][drawn].mean(), aime[1][drawn].mean(), pooled - other[drawn_other].mean()]))
    found = joint_interval(effects)
    expected = np.mean([aime[0].mean(), aime[1].mean(), (aime[2] * sizes).sum() / sizes.sum() - other.mean()])
    assert found.estimate == pytest.approx(expected, rel=1e-12)
    ends = expected + spread_factor(8) * (np.quantile(means, [0.025, 0.975]) - expected)
    assert (found.low, found.high) == pytest.approx(tuple(ends), rel=1e-9)


def test_parts_on_the_same_problems_are_no_independent_evidence() -> None:
    values = np.random.default_rng(1).normal(3.0, 20.0, (2, 200))
    one, twice = (joint_interval([[mean_of("a", values[0])]] * count) for count in (1, 2))
    assert (one.low, one.high) == pytest.approx((twice.low, twice.high))
    both = joint_interval([[mean_of("a", values[0])], [mean_of("b", values[1])]])
    assert both.high - both.low == pytest.approx((one.high - one.low) / np.sqrt(2.0), rel=0.15)
    alone = bootstrap_interval(values[0], limits=None)
    assert (one.low, one.high) == pytest.approx((alone.low, alone.high), abs=0.2), "other draws of the same problems"


def test_the_linear_error_is_the_bootstraps() -> None:
    generator = np.random.default_rng(2)
    values, sizes = generator.normal(3.0, 20.0, 400), generator.integers(1, 5, 400).astype(float)
    effects = [
        [mean_of("a", values)],
        [Ratio("a", values * sizes, sizes), mean_of("b", generator.normal(size=300), -1)],
    ]
    interval, (estimate, deviations) = joint_interval(effects), joint_error(effects)
    error = np.sqrt(deviations["a"] ** 2 / 400 + deviations["b"] ** 2 / 300)
    assert interval.estimate == pytest.approx(estimate)
    assert (interval.high - interval.low) / (2 * 1.96) == pytest.approx(error, rel=0.05)


def test_one_problem_has_no_interval() -> None:
    interval = joint_interval([[mean_of("a", np.array([5.0]))], [mean_of("a", np.array([7.0]))]])
    assert (interval.estimate, interval.low, interval.high) == (6.0, -np.inf, np.inf)


def test_simulated_rows_have_the_expected_scores_and_likeness() -> None:
    places = [("m", "vanilla", 1), ("m", "native", 1), ("m", "native", 2), ("m", "stair", 2), ("n", "stair", 2)]
    keys = [TurnKey(model, "b", condition, turn) for model, condition, turn in places]
    scores = [
        Expected(60.0, 75.0),
        Expected(60.0, 75.0),
        Expected(40.0, 62.0),
        Expected(55.0, 80.0),
        Expected(70.0, 85.0),
    ]
    rows = simulated_responses(dict(zip(keys, scores, strict=True)), {"b": 20_000}, 4, np.random.default_rng(3))
    grids = [grid for grid in map(rows.grids.get, keys) if isinstance(grid, Grid)]
    for grid, score in zip(grids, scores, strict=True):
        assert 100.0 * grid.correct.mean() == pytest.approx(score.average, abs=1.0)
        assert 100.0 * grid.correct.any(axis=1).mean() == pytest.approx(score.passed, abs=1.0)
    assert (grids[0].correct == grids[1].correct).all(), "Native repeats Vanilla's T1"

    def likeness(one: Grid, other: Grid) -> float:
        """The correlation of success rates, without the noise of four samples."""
        means = [grid.correct.mean(axis=1) for grid in (one, other)]
        spreads = [each.var() - (each * (1.0 - each)).mean() / 3.0 for each in means]
        return float(np.cov(*means)[0, 1] / np.sqrt(spreads[0] * spreads[1]))

    assert likeness(grids[2], grids[3]) == pytest.approx(WITHIN_MODEL, abs=0.1)
    assert likeness(grids[3], grids[4]) == pytest.approx(BETWEEN_MODELS, abs=0.1)


def test_impossible_scores_count_as_the_nearest_possible_ones() -> None:
    key = TurnKey("m", "b", "vanilla", 1)
    grid = simulated_responses({key: Expected(95.0, 100.0)}, {"b": 5_000}, 4, np.random.default_rng(4)).grids[key]
    assert isinstance(grid, Grid) and 100.0 * grid.correct.mean() == pytest.approx(95.0, abs=1.0)
