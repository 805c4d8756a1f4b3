"""Effects of claims: their estimates are differences of the tables' numbers, and their sizes are the least that decide."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stair.statistics.conditioning import pooled_history
from stair.statistics.effects import (
    Effect,
    Side,
    conditional_effect,
    conditional_ratio,
    difference_of_estimates,
    difference_of_gains,
    occurrence,
    paired_effect,
)
from stair.statistics.grid import Gap, Responses
from stair.statistics.intervals import Interval, bootstrap_interval
from stair.statistics.joint import Ratio
from stair.statistics.metrics import MEAN
from stair.statistics.paired import deciding_problems, detectable_difference
from tests.statistics.paper_rows import MODELS, grid_rows, rows_of_main_conditions
from tests.statistics.turn_scores import turn_metrics

MATHEMATICAL = ["math500", "aime2025", "amc23"]
MODEL, BENCHMARK = "qwen3.5-4b", "aime2025"
LATER = (2, 3, 4)


@pytest.fixture(scope="module")
def responses() -> Responses:
    return Responses.from_frame(rows_of_main_conditions())


@pytest.mark.parametrize("passed", [False, True])
def test_a_paired_effect_is_the_difference_of_the_tables_scores(responses: Responses, passed: bool) -> None:
    scores = _scores(responses)
    metric = "Pass@4" if passed else "Avg@4"
    terms = [(1, Side(MODEL, BENCHMARK, ("stair",), LATER)), (-1, Side(MODEL, BENCHMARK, ("native",), LATER))]
    found = paired_effect(responses, terms, passed=passed)
    assert isinstance(found, Effect)
    expected = scores[MODEL, BENCHMARK, "stair", MEAN, metric] - scores[MODEL, BENCHMARK, "native", MEAN, metric]
    assert found.interval.estimate == pytest.approx(expected)
    assert found.problems == 30 and (found.deciding_samples is None) == passed
    other = [
        (1, Side("qwen3.5-9b", BENCHMARK, ("native",), (1,))),
        (-1, Side("qwen3.5-9b", BENCHMARK, ("stair",), (2,))),
    ]
    both = paired_effect(responses, [*terms, *other], passed=passed)
    assert isinstance(both, Effect)
    more = (
        scores["qwen3.5-9b", BENCHMARK, "native", "T1", metric] - scores["qwen3.5-9b", BENCHMARK, "stair", "T2", metric]
    )
    assert both.interval.estimate == pytest.approx(expected + more)


def test_a_pooled_effect_is_the_difference_of_pooled_accuracies(responses: Responses) -> None:
    pooled = {
        (v.group, v.condition): v.value for v in pooled_history(responses, MATHEMATICAL) if v.metric == "accuracy"
    }
    places = [(model, benchmark) for model in MODELS.values() for benchmark in MATHEMATICAL]
    for group in ("T1 correct", "T1 wrong"):
        for greater, less in (("stair", "native"), ("vanilla", "native")):
            ratio = conditional_ratio(responses, places, group, greater, less)
            assert isinstance(ratio, Ratio)
            found = conditional_effect(ratio, group, greater, less)
            assert isinstance(found, Effect)
            assert found.interval.estimate == pytest.approx(pooled[group, greater] - pooled[group, less])  # type: ignore[operator]
            assert found.problems == 500 + 30 + 34


def test_a_missing_condition_is_a_gap(responses: Responses) -> None:
    terms = [(1, Side(MODEL, BENCHMARK, ("lora",), LATER)), (-1, Side(MODEL, BENCHMARK, ("native",), LATER))]
    found = paired_effect(responses, terms)
    assert isinstance(found, Gap) and "lora: no responses" in found.reason


@pytest.mark.parametrize(("deviation", "difference"), [(42.0, 20.0), (30.0, 0.7), (5.0, 80.0), (1.0, -0.3)])
def test_the_deciding_size_is_the_least(deviation: float, difference: float) -> None:
    size = deciding_problems(deviation, difference)
    assert size is not None
    assert detectable_difference(deviation, size) <= abs(difference)
    assert size == 2 or detectable_difference(deviation, size - 1) > abs(difference)


def test_no_size_decides_no_difference() -> None:
    assert deciding_problems(3.0, 0.0) is None
    assert deciding_problems(0.0, 1.0) == 2


def test_a_tie_up_to_rounding_is_no_difference() -> None:
    """The conditions have as many correct answers, on other problems; the mean of the differences is -1e-15."""
    native = {2: (1, 0, 2, 0, 3, 1), 3: (2, 1, 0, 4, 0, 1), 4: (0, 3, 2, 1, 1, 0)}
    stair = {2: (3, 1, 2, 0, 1, 0), 3: (0, 4, 1, 0, 2, 1), 4: (3, 0, 1, 0, 2, 1)}
    rows = [
        grid_rows(MODEL, BENCHMARK, condition, turn, np.arange(4) < np.array(correct)[:, None], np.arange(6))
        for condition, counts in (("native", native), ("stair", stair), ("stair_second", stair))
        for turn, correct in {1: counts[2], **counts}.items()
    ]
    seeds = ("stair", "stair_second")
    tied = Responses.from_frame(pd.concat(rows))
    terms = [(1, Side(MODEL, BENCHMARK, seeds, LATER)), (-1, Side(MODEL, BENCHMARK, ("native",), LATER))]
    found = paired_effect(tied, terms)
    assert isinstance(found, Effect)
    assert (found.interval.estimate, found.p_value, found.seeds) == (0.0, 1.0, (0.0, 0.0))
    assert found.interval.low < -5.0 and found.interval.high > 5.0, "the problems do differ"
    assert found.deciding is None and found.deciding_samples is None
    assert difference_of_estimates(Interval(0.1 + 0.2, 0.0, 1.0), Interval(0.3, 0.0, 1.0)).interval.estimate == 0.0


@pytest.mark.parametrize(("count", "total"), [(0, 40), (1, 40), (37, 2000), (40, 40)])
def test_an_occurrence_has_the_exact_binomial_interval(count: int, total: int) -> None:
    found = occurrence(count, total).interval
    exact = stats.binomtest(count, total).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((100 * exact.low, 100 * exact.high))
    assert found.estimate == pytest.approx(100 * count / total)


def test_independent_estimates_add_their_errors_in_squares() -> None:
    found = difference_of_estimates(Interval(10.0, 7.0, 12.0), Interval(4.0, 2.0, 8.0)).interval
    assert (found.estimate, found.low, found.high) == pytest.approx((6.0, 6.0 - 5.0, 6.0 + np.hypot(2.0, 2.0)))


def test_the_histories_that_decide_are_those_of_a_run_with_that_power() -> None:
    """With the factor times as many histories, the error is so small that four of five runs show this effect."""
    for sign in (1.0, -1.0):
        factor = difference_of_estimates(
            Interval(sign, sign - 4.0, sign + 4.0), Interval(0.0, 0.0, 0.0)
        ).deciding_factor
        assert factor is not None
        error = 4.0 / stats.norm.ppf(0.975) / np.sqrt(factor)
        assert stats.norm.sf(stats.norm.ppf(0.975) - 1.0 / error) == pytest.approx(0.8)
    nothing = difference_of_estimates(Interval(1.0, -np.inf, np.inf), Interval(0.0, 0.0, 0.0))
    assert (nothing.interval.low, nothing.interval.high, nothing.deciding_factor) == (-np.inf, np.inf, None)


def test_the_difference_of_gains_holds_its_level_and_agrees_with_its_interval() -> None:
    """Equal mean gains on 30 problems that vary much, and on 200 that vary little."""
    generator = np.random.default_rng(3)

    def gain(mean: float, deviation: float, problems: int) -> Effect:
        return Effect(
            bootstrap_interval(generator.normal(mean, deviation, problems), limits=None), seeds=(mean + 1.0, mean)
        )

    for difference, least, most in ((0.0, 0.02, 0.09), (25.0, 0.9, 1.0)):
        called = 0
        for _ in range(200):
            found = difference_of_gains(gain(5.0 + difference, 35.0, 30), gain(5.0, 10.0, 200))
            assert isinstance(found, Effect) and found.p_value is not None
            assert (found.p_value < 0.05) == (found.interval.low > 0.0 or found.interval.high < 0.0)
            assert found.seeds == (difference, difference)
            called += found.p_value < 0.05
        assert least <= called / 200 <= most
    lacking = Gap("no rows")
    assert (
        difference_of_gains(gain(1.0, 1.0, 30), lacking) is lacking is difference_of_gains(lacking, gain(1.0, 1.0, 30))
    )
    same = Effect(Interval(25.0, 25.0, 25.0))
    flat = difference_of_gains(same, Effect(Interval(0.0, 0.0, 0.0)))
    assert isinstance(flat, Effect) and (flat.interval.estimate, flat.p_value) == (25.0, 1.0), (
        "two problems can have no spread"
    )


def test_samples_that_decide_follow_from_the_spread_among_them(responses: Responses) -> None:
    """Naively: the standard error of the mean over problems at the size is the effect over both quantiles."""
    terms = [(1, Side(MODEL, BENCHMARK, ("stair",), (2,))), (-1, Side(MODEL, BENCHMARK, ("native",), (2,)))]
    found = paired_effect(responses, terms)
    stair, native = (responses.grid(MODEL, BENCHMARK, condition, 2) for condition in ("stair", "native"))
    assert isinstance(found, Effect) and not isinstance(stair, Gap) and not isinstance(native, Gap)
    variance = np.mean(
        [np.var(100.0 * a - 100.0 * b, ddof=1) for a, b in zip(stair.correct, native.correct, strict=True)]
    )
    assert found.deciding_samples is not None
    for samples, enough in ((found.deciding_samples, True), (found.deciding_samples - 1, False)):
        error = np.sqrt(variance / (30 * samples)) if samples else np.inf
        assert ((1.96 + 0.8416) * error <= found.interval.estimate * 1.0001) == enough


def _scores(responses: Responses) -> dict[tuple[str, ...], float]:
    values = turn_metrics(responses)
    return {(v.model, v.benchmark, v.condition, v.turn, v.metric): float(v.value) for v in values}  # type: ignore[arg-type]
