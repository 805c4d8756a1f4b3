"""Spreads and rerun intervals against the formula as written, over rows of responses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stair.statistics.grid import Grid, Responses
from stair.statistics.interval_tables import history_intervals
from stair.statistics.printed_comparison import Key, Spread, replication, replication_spreads
from stair.statistics.sampling_noise import Noise, average_noise, binomial_noise, pass_noise, rerun_interval

from .test_metrics import BENCHMARK, MODEL, session_rows

SAMPLES = 4
PLACE = (MODEL, BENCHMARK)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """The responses, each with whether its session's T1 response is correct."""
    rows = session_rows(problems=12)
    first = rows[(rows["turn"] == 1) & (rows["condition"] == "native")]
    first = first.rename(columns={"correct": "opened"})[["session_id", "sample", "opened"]]
    return rows.merge(first, on=["session_id", "sample"])


@pytest.fixture(scope="module")
def spreads(rows: pd.DataFrame) -> dict[Key, Spread]:
    return replication_spreads(Responses.from_frame(rows), pooled=[BENCHMARK], gains={"stair": "native"})


def naive(rows: pd.DataFrame, adds: pd.Series, unit: float) -> tuple[float, float]:
    """Variance and degrees of freedom of the sum of what responses add, in units of `unit` a response.

    The samples of a session are independent runs of it: K times the variance among them, summed over sessions.
    """
    variances = []
    for _, session in rows.assign(adds=adds.astype(float)).groupby("session_id"):
        sums = session.groupby("sample")["adds"].sum()
        assert len(sums) == SAMPLES
        variances.append(SAMPLES * ((sums - sums.mean()) ** 2).sum() / (SAMPLES - 1))
    total, squares = sum(variances), sum(each**2 for each in variances)
    return unit**2 * max(1.0, total), max(1.0, (SAMPLES - 1) * total**2 / squares) if squares else 1.0


def of(rows: pd.DataFrame, condition: str, *turns: int) -> pd.Series:
    return (rows["condition"] == condition) & rows["turn"].isin(turns)


@pytest.mark.parametrize("turns", [(1,), (3,), (2, 3, 4)])
def test_scores(rows: pd.DataFrame, spreads: dict[Key, Spread], turns: tuple[int, ...]) -> None:
    span = f"T{turns[0]}" if len(turns) == 1 else "T2-T4"
    part = of(rows, "stair", *turns)
    assert spreads[*PLACE, "stair", span, "", "Avg@4"] == pytest.approx(
        naive(rows, part & rows["correct"], 100 / part.sum())
    )


def test_gains(rows: pd.DataFrame, spreads: dict[Key, Spread]) -> None:
    later = [of(rows, condition, 2, 3, 4) for condition in ("stair", "native")]
    adds = 1.0 * (later[0] & rows["correct"]) - 1.0 * (later[1] & rows["correct"])
    assert spreads[*PLACE, "stair", "T2-T4", "", "Avg@4 gain"] == pytest.approx(naive(rows, adds, 100 / later[0].sum()))
    passes = [spreads[*PLACE, condition, "T2-T4", "", "Pass@4"] for condition in ("stair", "native")]
    variance, degrees = spreads[*PLACE, "stair", "T2-T4", "", "Pass@4 gain"]
    assert variance == pytest.approx(sum(each.variance for each in passes))
    assert degrees == pytest.approx(variance**2 / sum(each.variance**2 / each.degrees for each in passes))


@pytest.mark.parametrize("opened", [True, False])
def test_groups_by_the_first_answer(rows: pd.DataFrame, spreads: dict[Key, Spread], opened: bool) -> None:
    group = "T1 correct" if opened else "T1 wrong"
    member = of(rows, "native", 3) & (rows["opened"] == opened)
    assert spreads[*PLACE, "", "T3", group, "n"] == pytest.approx(naive(rows, member, 1.0))
    assert spreads[*PLACE, "native", "T3", group, "correct"] == pytest.approx(
        naive(rows, member & rows["correct"], 1.0)
    )
    # A ratio of two sums: what each member adds beyond the group's accuracy.
    for condition, turns, place in (
        ("native", (3,), (*PLACE, "native", "T3")),
        ("stair", (2, 3, 4), ("", "", "stair", "T2-T4")),
    ):
        member = of(rows, condition, *turns) & (rows["opened"] == opened)
        adds = member * (rows["correct"] - rows["correct"][member].mean())
        assert spreads[*place, group, "accuracy"] == pytest.approx(naive(rows, adds, 100 / member.sum()))


def test_changes_of_answers(rows: pd.DataFrame, spreads: dict[Key, Spread]) -> None:
    keys = ["problem_id", "sample"]
    pairs = rows[of(rows, "vanilla", 1)].merge(rows[of(rows, "native", 2)], on=keys, suffixes=("", "_after"))
    pairs = pairs.assign(session_id=pairs["problem_id"])  # a pair is of two sessions, so clusters are problems
    place = (*PLACE, "native", "T2", "")
    was, became = pairs["correct"], pairs["correct_after"]
    assert spreads[*place, "wrong to correct"] == pytest.approx(naive(pairs, ~was & became, 1.0))
    assert spreads[*place, "correct to correct"] == pytest.approx(naive(pairs, was & became, 1.0))
    assert spreads[*place, "net change"] == pytest.approx(naive(pairs, 1.0 * became - 1.0 * was, 100 / len(pairs)))


def test_answers_that_all_agree_have_the_variance_of_one_answer() -> None:
    rows = session_rows(problems=12).assign(correct=True)
    spreads = replication_spreads(Responses.from_frame(rows), pooled=[BENCHMARK], gains={})
    assert spreads[*PLACE, "native", "T2", "", "Avg@4"] == pytest.approx(((100 / 48) ** 2, 1.0))


def test_the_replication_interval() -> None:
    """t at 97.5%, times the root of two variances, plus half of the printed value's last place."""
    found = replication(50.0, 56.0, Spread(4.0, 9.0), rounding=0.02)
    width = stats.t.ppf(0.975, 9.0) * 8.0**0.5
    assert found[:2] == pytest.approx((50.0 - width - 0.01, 50.0 + width + 0.01))
    assert found.p_value == pytest.approx(2 * stats.t.sf(5.99 / 8.0**0.5, 9.0))
    assert replication(50.0, 50.01, Spread(4.0, 9.0), rounding=0.02).p_value == 1.0
    assert replication(50.0, 50.3, Spread(4.0, 9.0)).p_value == pytest.approx(2 * stats.t.sf(0.3 / 8.0**0.5, 9.0))
    assert [replication(50.0, other, Spread(0.0, 1.0)).p_value for other in (50.0, 51.0)] == [1.0, 0.0]


# ---------------------------------------------------------------- rerun intervals


def grid(*counts: int) -> Grid:
    """A problem for each count of correct samples."""
    correct = np.array([[sample < count for sample in range(SAMPLES)] for count in counts])
    return Grid(tuple(map(str, range(len(counts)))), correct, np.full(correct.shape, "s", dtype=object), None)


def test_the_noise_of_an_average() -> None:
    """Rates of 1, 1/2 and 1/4: r (1 - r) / 3 each, over nine, and the variance of one answer of twelve."""
    noise = average_noise(grid(4, 2, 1))
    assert noise.standard_error == pytest.approx(100 * ((0.25 + 0.1875) / 3 / 9 + 1 / 144) ** 0.5)
    assert noise.step == pytest.approx(100 / 12)
    assert noise.degrees == pytest.approx(max(1.0, 0.4375**2 / (0.25**2 + 0.1875**2) - 1.0))


def test_the_noise_of_passes() -> None:
    """The rates that are compatible with each count, by 50 rounds of expectation maximisation over 41 rates."""
    counts = (4, 4, 3, 1, 0, 0)
    rates = [index / 40 for index in range(41)]
    chance = {count: [stats.binom.pmf(count, SAMPLES, rate) for rate in rates] for count in range(SAMPLES + 1)}

    def given(count: int, weights: list[float]) -> list[float]:
        joint = [chance[count][index] * weights[index] for index in range(41)]
        return [each / sum(joint) for each in joint]

    weights = [1 / 41] * 41
    for _ in range(50):
        each_given = [given(count, weights) for count in counts]
        weights = [sum(one[index] for one in each_given) / len(counts) for index in range(41)]
    variances = []
    for count in counts:
        none = [(1 - rate) ** SAMPLES for rate in rates]
        variances.append(
            sum(weight * part * (1 - part) for weight, part in zip(given(count, weights), none, strict=True))
        )
    noise = pass_noise(grid(*counts))
    assert noise.standard_error == pytest.approx(100 * (sum(variances) + 1) ** 0.5 / 6)
    assert noise.step == pytest.approx(100 / 6)
    assert noise.degrees == pytest.approx(max(1.0, sum(variances) ** 2 / sum(each**2 for each in variances) - 1.0))


def test_the_noise_of_a_groups_accuracy() -> None:
    noise = binomial_noise(6, 24)
    assert noise.standard_error == pytest.approx(100 * (0.25 * 0.75 / 24) ** 0.5)
    assert (noise.step, noise.degrees) == (100 / 24, 23.0)
    assert binomial_noise(1, 1).degrees == 1.0


def test_the_rerun_interval() -> None:
    """t at 97.5%, times the root of two standard errors, plus half of the smallest difference; within 0 and 100."""
    width = stats.t.ppf(0.975, 7.0) * 2**0.5 * 3.0 + 0.25
    found = rerun_interval(40.0, Noise(3.0, 0.5, 7.0))
    assert (found.low, found.high) == pytest.approx((40.0 - width, 40.0 + width))
    assert rerun_interval(1.0, Noise(3.0, 0.5, 7.0)).low == 0.0
    assert rerun_interval(99.0, Noise(3.0, 0.5, 7.0)).high == 100.0


def test_a_group_without_a_response_has_no_interval() -> None:
    rows = session_rows(problems=12)
    rows.loc[rows["turn"] == 1, "correct"] = True
    found = pd.DataFrame(history_intervals(Responses.from_frame(rows), MODEL, BENCHMARK))
    wrong = found[found["group"] == "T1 wrong"]
    assert len(wrong) == 9
    assert set(wrong["gap"]) == {"no response in this group"}
    assert wrong[["value", "low", "high", "rerun_low", "rerun_high"]].isna().all(axis=None)
