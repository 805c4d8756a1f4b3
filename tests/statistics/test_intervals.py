"""Intervals cover, tests hold their level, and reruns of one truth are called equal."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stair.statistics.grid import Grid, Responses
from stair.statistics.interval_tables import condition_comparisons, history_intervals, turn_intervals
from stair.statistics.intervals import average_scores, bootstrap_interval, median_interval, pass_scores, ratio_interval
from stair.statistics.paired import (
    detectable_difference,
    false_discoveries,
    paired_difference,
    sign_flip_p_value,
)
from stair.statistics.printed_comparison import Spread, replication
from stair.statistics.sampling_noise import average_noise, mean_noise, pass_noise, rerun_interval
from tests.statistics.turn_scores import turn_metrics

from .frames import frame_of
from .test_metrics import BENCHMARK, MODEL, session_rows

# Numbers of problems and beta distributions of success rates like those of the paper's benchmarks.
DESIGNS = [(500, 4.0, 0.2), (30, 0.5, 0.6), (34, 3.0, 0.3), (198, 0.8, 0.6)]


def sampled(rates: np.ndarray, generator: np.random.Generator) -> Grid:
    correct = generator.random((len(rates), 4)) < rates[:, None]
    return Grid(tuple(map(str, range(len(rates)))), correct, np.full(correct.shape, "s", dtype=object), None)


def test_the_interval_of_few_problems_is_widened_by_hand() -> None:
    """Resampled means of two problems with 40 and 60 are 40, 50 and 60, and the percentiles 40 and 60.

    The root of 2 / (2 - 1) and the quantiles of Student's t with one degree of freedom, 12.7062, and of the normal
    distribution, 1.95996, widen them (docs/statistics.md).
    """
    half = 10.0 * np.sqrt(2.0) * 12.7062 / 1.95996
    expected = pytest.approx((50.0 - half, 50.0 + half), rel=1e-5)
    scores, twice = np.array([40.0, 60.0]), np.full(2, 2.0)
    for interval in (
        bootstrap_interval(scores, limits=None),
        ratio_interval(twice * scores, twice, limits=None),
        paired_difference(scores, np.zeros(2)).interval,
    ):
        assert (interval.low, interval.high) == expected
    assert (bootstrap_interval(scores).low, bootstrap_interval(scores).high) == (0.0, 100.0)


def test_answers_to_one_problem_are_one_cluster() -> None:
    """Four copies of each answer carry no more information than one."""
    generator = np.random.default_rng(1)
    column = generator.random((60, 1)) < 0.5
    once = bootstrap_interval(100.0 * column[:, 0])
    four = bootstrap_interval(100.0 * np.repeat(column, 4, axis=1).mean(axis=1))
    assert (once.low, once.high) == (four.low, four.high)
    naive = bootstrap_interval(100.0 * np.repeat(column, 4, axis=1).ravel())
    assert naive.high - naive.low < 0.6 * (four.high - four.low)


def test_intervals_are_functions_of_the_data() -> None:
    scores = np.linspace(0.0, 100.0, 37)
    assert bootstrap_interval(scores) == bootstrap_interval(scores)
    interval = bootstrap_interval(np.full(30, 100.0))
    assert (interval.low, interval.estimate, interval.high) == (100.0, 100.0, 100.0)
    one = bootstrap_interval(np.array([50.0]))
    assert (one.low, one.high) == (0.0, 100.0)


def test_a_ratio_weighs_problems_by_their_responses() -> None:
    interval = ratio_interval(np.array([400.0, 0.0, 0.0]), np.array([4.0, 1.0, 0.0]))
    assert interval.estimate == 80.0
    with pytest.raises(ValueError, match="at least one response"):
        ratio_interval(np.zeros(3), np.zeros(3))


def test_sign_flips_by_hand() -> None:
    # Of the eight sign patterns of 1, 2, 3, two have a sum of 6 in absolute value, and four one of at least 4.
    assert sign_flip_p_value(np.array([1.0, 2.0, 3.0])) == 2 / 8
    assert sign_flip_p_value(np.array([-1.0, 2.0, 3.0, 0.0])) == 4 / 8
    assert sign_flip_p_value(np.zeros(5)) == 1.0
    # Differences by rounding alone are none. As differences they would be too many to count all patterns.
    rounding = np.full(12, 0.1 + 0.2 - 0.3)
    assert sign_flip_p_value(np.array([*rounding, 1.0, 2.0, 3.0])) == 2 / 8


def test_the_sign_flip_test_holds_its_level_and_finds_an_effect() -> None:
    generator = np.random.default_rng(2)
    null = [sign_flip_p_value(generator.normal(0.0, 10.0, 40), index) for index in range(300)]
    assert np.mean(np.array(null) <= 0.05) <= 0.08
    effect = [sign_flip_p_value(generator.normal(8.0, 10.0, 40), index) for index in range(50)]
    assert np.mean(np.array(effect) <= 0.05) >= 0.95


def test_pairing_removes_what_problems_have_in_common() -> None:
    generator = np.random.default_rng(3)
    difficulty = generator.uniform(0.0, 90.0, 80)
    found = paired_difference(difficulty + 5.0 + generator.normal(0, 4, 80), difficulty)
    assert found.interval.low > 0.0
    assert found.p_value < 0.001
    assert found.interval.high - found.interval.low < 4.0
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_difference(difficulty, difficulty[:-1])


def test_the_detectable_difference_is_found_with_the_stated_power() -> None:
    generator = np.random.default_rng(4)
    size = detectable_difference(20.0, 60)
    found = 0
    for index in range(150):
        found += sign_flip_p_value(generator.normal(size, 20.0, 60), index) <= 0.05
    assert 0.7 <= found / 150 <= 0.9
    assert detectable_difference(20.0, 1) == float("inf")


def outside(one: Grid, other: Grid) -> list[bool]:
    """Whether another run's Avg@4 and Pass@4 are outside the rerun intervals of one."""
    ends = [
        rerun_interval(float(score(one).mean()), noise(one))
        for score, noise in ((average_scores, average_noise), (pass_scores, pass_noise))
    ]
    theirs = average_scores(other).mean(), pass_scores(other).mean()
    return [not end.low - 1e-9 <= their <= end.high + 1e-9 for end, their in zip(ends, theirs, strict=True)]


@pytest.mark.parametrize(("problems", "alpha", "beta"), DESIGNS)
def test_at_most_five_in_a_hundred_reruns_of_one_truth_are_called_different(
    problems: int, alpha: float, beta: float
) -> None:
    generator = np.random.default_rng(problems)
    rates = generator.beta(alpha, beta, problems)
    differ = np.array([outside(sampled(rates, generator), sampled(rates, generator)) for _ in range(500)])
    assert (differ.mean(axis=0) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 500)).all()


def test_false_discoveries_over_tables_of_reruns() -> None:
    """A table of 24 cells is called to have a difference in at most 5 of 100 reruns; real differences are found."""
    generator = np.random.default_rng(6)
    truths = [generator.beta(alpha, beta, problems) for problems, alpha, beta in DESIGNS for _ in range(6)]
    tables = 100
    flagged = found = 0
    for index in range(tables):
        p_values = []
        for cell, rates in enumerate(truths):
            shifted = np.clip(rates - 0.25, 0.0, 1.0) if index % 2 and cell < 3 else rates
            one, other = sampled(rates, generator), sampled(shifted, generator)
            ours, theirs, noise = average_scores(one).mean(), average_scores(other).mean(), average_noise(one)
            spread = Spread(noise.standard_error**2, noise.degrees)
            p_values.append(replication(float(ours), float(theirs), spread).p_value)
        called = false_discoveries(p_values)
        flagged += bool(called.any()) if index % 2 == 0 else 0
        found += int(called[:3].sum()) if index % 2 else 0
    assert flagged / (tables / 2) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / (tables / 2))
    assert found >= 0.95 * 3 * tables / 2


def test_benjamini_hochberg_by_hand() -> None:
    # Thresholds 0.0125, 0.025, 0.0375, 0.05: the third is met, and takes the second with it.
    assert false_discoveries([0.03, 0.9, 0.01, 0.026]).tolist() == [True, False, True, True]
    assert false_discoveries([0.03, 0.9, 0.02, 0.9]).tolist() == [False] * 4
    assert false_discoveries([]).tolist() == []


def test_turns_are_averaged_with_their_noise() -> None:
    generator = np.random.default_rng(8)
    noise = average_noise(sampled(generator.beta(1, 1, 50), generator))
    assert mean_noise([noise] * 3).standard_error == pytest.approx(noise.standard_error / np.sqrt(3))


def test_every_value_has_its_intervals() -> None:
    responses = Responses.from_frame(session_rows(problems=12))
    intervals = pd.DataFrame(turn_intervals(responses))
    values = frame_of(turn_metrics(responses))
    joined = values.merge(
        intervals, on=["model", "benchmark", "condition", "turn", "metric"], suffixes=("", "_interval")
    )
    assert len(joined) == len(values) == len(intervals)
    assert np.allclose(joined["value"], joined["value_interval"])
    for name in ("", "rerun_"):
        assert (joined[f"{name}low"] <= joined["value"] + 1e-9).all()
        assert (joined[f"{name}high"] >= joined["value"] - 1e-9).all()
    history = pd.DataFrame(history_intervals(responses, MODEL, BENCHMARK))
    assert len(history) == 3 * 2 * 3
    assert history["low"].between(0, 100).all()


def test_comparisons_of_conditions_follow_the_turns() -> None:
    rows = session_rows(problems=12)
    table = pd.DataFrame(condition_comparisons(Responses.from_frame(rows), MODEL, BENCHMARK, "stair", "native"))
    assert list(table["turn"].unique()) == ["T2", "T3", "T4", "T2-T4"]
    values = {(v.condition, v.turn, v.metric): v.value for v in turn_metrics(Responses.from_frame(rows))}
    for row in table.itertuples():
        expected = values["stair", row.turn, row.metric] - values["native", row.turn, row.metric]
        assert row.value == pytest.approx(expected)
    gaps = pd.DataFrame(
        condition_comparisons(Responses.from_frame(pd.concat([rows.iloc[:-1]])), MODEL, BENCHMARK, "stair", "native")
    )
    assert set(gaps[gaps["gap"].notna()]["turn"]) == {"T4", "T2-T4"}


@pytest.mark.parametrize(("count", "rank"), [(6, 1), (16, 4), (40, 14)])
def test_the_interval_of_a_median_is_that_of_order_statistics(count: int, rank: int) -> None:
    """The greatest rank for which the truth is outside the rank and its mirror in at most 5% of samples."""
    values = np.random.default_rng(0).permutation(count) + 1.0
    found = median_interval(values.tolist())
    assert (found.estimate, found.low, found.high) == ((count + 1) / 2, rank, count + 1 - rank)
    assert 2 * stats.binom.cdf(rank - 1, count, 0.5) < 0.05 <= 2 * stats.binom.cdf(rank, count, 0.5)


def test_five_values_have_no_interval_of_their_median() -> None:
    found = median_interval([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (found.estimate, found.low, found.high) == (3.0, -np.inf, np.inf)
